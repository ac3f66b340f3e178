#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/unique_fd.hpp"

namespace isthmus::emulated {

enum class BackingKind : std::uint32_t { device = 1, physical, pool, managed, event };

/// Managed memory has this in the name by which the kernel lists it: `test/emulated/moves` looks for it.
inline constexpr const char* managed_name = "emulated-cuda-managed";

/// Lies behind the memory itself in the same file, for whoever is handed the descriptor.
struct BackingHeader {
  static constexpr std::uint64_t expected_mark = 0x6d65'7564'6163'7531;
  static constexpr std::size_t slots = 480;
  std::uint64_t mark = expected_mark;
  BackingKind kind = BackingKind::device;
  std::uint32_t device = 0;  ///< its number on the machine
  std::uint64_t bytes = 0;
  std::uint64_t token = 0;  ///< random, never 0
  /// An event's: how often recorded, how far completed, and when.
  std::atomic<std::uint32_t> recorded{0};
  std::atomic<std::uint32_t> completed{0};
  std::atomic<std::int64_t> nanoseconds{0};
  /// A pool's: the ids of the allocations that live.
  std::array<std::atomic<std::uint64_t>, slots> live{};
};
static_assert(sizeof(BackingHeader) <= 4096);

/// Memory in a memfd, mapped where the copy engine reads and writes it. What a process exports is this file.
class Backing {
 public:
  /// Null where the system has no memory left.
  static std::shared_ptr<Backing> create(BackingKind kind, unsigned device, std::size_t bytes);
  /// Null if the file is not a backing of that kind.
  static std::shared_ptr<Backing> open(UniqueFd file, BackingKind kind);
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  ~Backing();

  [[nodiscard]] std::byte* view() const noexcept { return view_; }
  [[nodiscard]] BackingHeader& header() const noexcept { return *header_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return header_->bytes; }
  [[nodiscard]] int fd() const noexcept { return file_.get(); }

 private:
  Backing() = default;
  bool map(std::size_t room);

  UniqueFd file_;
  std::byte* view_ = nullptr;
  std::size_t room_ = 0;
  BackingHeader* header_ = nullptr;
};

/// What a legacy handle holds: how another process finds a backing.
struct Ticket {
  std::uint64_t mark = BackingHeader::expected_mark;
  BackingKind kind = BackingKind::device;
  pid_t pid = 0;  ///< of the exporter, in its namespace
  int fd = -1;    ///< there
  std::uint32_t device = 0;
  std::uint64_t token = 0;
  std::uint64_t inode = 0;
  std::uint64_t offset = 0;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(Ticket) <= 64);

/// Names the backing in EMULATED_CUDA_FOLDER, if that is set, for as long as it lives.
Ticket announce(const Backing& backing);
/// Takes the name away.
void withdraw(const Backing& backing);
/// Null if the memory is no more, or is nowhere to be found.
std::shared_ptr<Backing> find(const Ticket& ticket);

}  // namespace isthmus::emulated
