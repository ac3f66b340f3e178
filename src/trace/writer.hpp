#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "trace/record.hpp"

namespace isthmus::trace {

/// CLOCK_MONOTONIC in nanoseconds: one clock for all processes of a kernel.
[[nodiscard]] std::int64_t now() noexcept;

/// The file that a rank writes its records to. It is mapped, so that what is written outlives a kill, and
/// takes room of the disk a piece at a time. Guarded by the engine's lock.
class Writer {
 public:
  struct Rank {
    std::uint32_t rank;
    std::uint32_t size;
  };
  /// On a file that grows to at most `limit` bytes: the launcher's, where it takes it back
  /// (`trace/file.hpp`), or a new one, `rank-N.trace` in `folder`. An error says what could not be done with
  /// which file.
  static Result<std::unique_ptr<Writer>> make(const std::string& folder, std::uint64_t limit, Rank rank);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Writes `record`, of this thread. Where there is no room for it, it and all that follow are counted.
  void add(const Record& record) noexcept;

  /// Sets `text`, cut where it is too long.
  static void set_text(Record& record, std::string_view text) noexcept;

 private:
  Writer(int file, std::byte* memory, std::uint64_t limit) noexcept
      : file_(file), memory_(memory), limit_(limit) {}
  [[nodiscard]] Header& header() noexcept { return *reinterpret_cast<Header*>(memory_); }
  bool grow() noexcept;

  int file_;
  std::byte* memory_;
  std::uint64_t limit_;     ///< bytes that are mapped
  std::uint64_t room_ = 0;  ///< bytes that the file has
  std::uint64_t next_ = header_bytes;
  bool is_full_ = false;
};

}  // namespace isthmus::trace
