#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace isthmus {

/// A range of addresses, mapped until this goes.
class MappedRange {
 public:
  MappedRange() = default;
  explicit MappedRange(std::span<std::byte> memory) noexcept : memory_(memory) {}
  MappedRange(MappedRange&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  MappedRange& operator=(MappedRange&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~MappedRange();

  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.size(); }
  explicit operator bool() const noexcept { return !memory_.empty(); }

 private:
  std::span<std::byte> memory_;
};

/// Memory of this process that others may map and read. Its size is sealed, so that nobody's reads can end in
/// SIGBUS; and nobody but this mapping can write to it, whoever is handed the descriptor
/// (F_SEAL_FUTURE_WRITE, Linux 5.1).
struct SharedMemory {
  MappedRange range;
  UniqueFd file;

  /// `alignment`: a power of two. Pages come into being when touched, as those of malloc.
  static Result<SharedMemory> make(std::size_t bytes, std::size_t alignment);
  /// In the child of a fork: from now on what it writes is its own, as in memory of malloc.
  void part_from_parent() const noexcept;
};

/// Why this process does not make `SharedMemory`; empty where it does. Asks the system.
[[nodiscard]] std::string why_no_shared_memory();

/// Maps all of what a peer has handed over, to be read. Nothing that the peer says is needed: the kernel
/// tells the size. Refused is what could end a reader in SIGBUS (what may shrink, and huge pages that may be
/// used up), what is no file in memory, and what has more than `most` bytes.
Result<MappedRange> map_shared_memory(const UniqueFd& file, std::uint64_t most);

}  // namespace isthmus
