#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "wire/region.hpp"

/// Memory that several virtual machines of one host have in common: the BAR of an ivshmem device, or a file
/// that stands in for one. Nobody makes it, nobody removes it, and jobs come and go in it: so it begins with
/// a directory, and each job has a piece of the rest for its region (SR-IOV paper, section III-C).
///
///     DeviceHeader | DeviceSlot of each job | pieces
///
/// Whoever comes first makes the directory in memory that is all zeros. Its pieces are handed out under a
/// lock word, which others take away from a holder that has died with it. Each process of a job counts its
/// slot's heartbeat up; a job whose heartbeat stands still is dead, and its piece is for the next. Everything
/// in the directory may be written by a broken or hostile machine: it is copied out, checked, then used.
///
/// A machine may be paused between any two instructions and go on when its lock, or its slot, has long been
/// another's. So no word of a slot is ever just stored: each is exchanged for what was read before the slot
/// was claimed, and no job writes what another has written.
namespace isthmus::wire {

inline constexpr std::uint64_t device_magic = 0x6973'7468'6d75'6401;  // "isthmud", 1
inline constexpr std::uint32_t device_version = 2;
inline constexpr std::uint32_t device_jobs = 30;  ///< at a time

using DeviceId = std::array<std::uint8_t, 16>;

struct alignas(cache_line) DeviceHeader {
  std::atomic<std::uint64_t> lock;   ///< 0, or the random number of who holds it
  std::atomic<std::uint64_t> magic;  ///< written last
  std::uint32_t version;
  std::uint32_t jobs;
  std::uint64_t bytes;
  DeviceId id;  ///< random: machines that read the same one have the same memory
};

struct alignas(cache_line) DeviceSlot {
  /// 0 for a free slot, or a number that no other job had; with `device_claim` while the rest is written.
  std::atomic<std::uint64_t> tenancy;
  std::atomic<std::uint64_t> heartbeat;  ///< of whoever had the slot: only that it moves counts
  /// Processes that have not left yet, below half a tenancy's number.
  std::atomic<std::uint64_t> members;
  /// The job's piece in units: where it begins (24 bits from bit 40) and its size (24 bits from bit 16), and
  /// a count of those who have had the slot (16 bits).
  std::atomic<std::uint64_t> piece;
  std::array<std::atomic<std::uint64_t>, 2> key;  ///< JobKey
};

inline constexpr std::uint64_t device_claim = std::uint64_t{1} << 63;

/// The directory at the start of such memory. Cheap to copy; does not own the mapping.
class DeviceDirectory {
 public:
  struct Patience {
    std::chrono::milliseconds lock{2'000};     ///< until who holds the lock counts as dead
    std::chrono::milliseconds silence{5'000};  ///< until a job whose heart stands still does
  };
  /// A process's part in a job's piece.
  struct Tenancy {
    std::uint32_t slot = 0;
    std::uint64_t number = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  /// Bytes in front of the pieces; pieces are multiples of `unit`.
  static constexpr std::uint64_t unit = 64 * 1024;

  /// Makes the directory where `memory` holds zeros. Fails, with a part of a sentence, where it holds
  /// something else, or the directory of another release or of memory of another size.
  static Result<DeviceDirectory> open(std::span<std::byte> memory, Patience patience);
  static Result<DeviceDirectory> open(std::span<std::byte> memory) { return open(memory, Patience()); }

  [[nodiscard]] DeviceId id() const noexcept { return id_; }
  /// For all jobs together.
  [[nodiscard]] std::uint64_t capacity() const noexcept { return memory_.size() - unit; }

  /// A piece of at least `bytes` for the job of that key, with whatever the last job left in it, and this
  /// process as its member. `ErrorClass::no_mem` where none is free.
  Result<Tenancy> take(const JobKey& key, std::uint64_t bytes);
  /// The piece that another process has taken for that job, and this process as one more member.
  Result<Tenancy> enter(const JobKey& key);
  /// Watches all jobs for `Patience::silence` and frees what the dead have left; whether that was anything.
  /// Returns at once where there is no job.
  Result<bool> reclaim();
  /// That a member lives; false where the piece has been given to others because no member said so for long.
  bool beat(const Tenancy& tenancy) noexcept;
  /// The last member's leaving frees the piece.
  void leave(const Tenancy& tenancy) noexcept;

  [[nodiscard]] std::span<std::byte> memory(const Tenancy& tenancy) const noexcept {
    return memory_.subspan(tenancy.offset, tenancy.bytes);
  }

 private:
  struct Piece {
    std::uint64_t tenancy = 0, offset = 0, bytes = 0;
    JobKey key{};
    [[nodiscard]] bool claimed() const noexcept { return (tenancy & device_claim) != 0; }
  };
  /// A slot's words as they were before it was claimed.
  struct Before {
    std::uint32_t slot = 0;
    std::uint64_t tenancy = 0, members = 0, piece = 0;
    std::array<std::uint64_t, 2> key{};
  };

  DeviceDirectory(std::span<std::byte> memory, Patience patience) : memory_(memory), patience_(patience) {}
  [[nodiscard]] DeviceHeader& header() const noexcept {
    return *reinterpret_cast<DeviceHeader*>(memory_.data());
  }
  [[nodiscard]] DeviceSlot& slot(std::uint32_t number) const noexcept {
    return reinterpret_cast<DeviceSlot*>(memory_.data() + sizeof(DeviceHeader))[number];
  }
  Result<> make_or_check();
  /// What slot `number` says, copied out; nothing if it is free or says what cannot be.
  [[nodiscard]] std::optional<Piece> look(std::uint32_t number) const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> find_room(std::uint64_t bytes) const;
  [[nodiscard]] bool is_possible(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  [[nodiscard]] std::optional<Before> find_slot() const noexcept;
  [[nodiscard]] bool fill(const Before& before, const JobKey& key, const Tenancy& tenancy) noexcept;

  std::span<std::byte> memory_;
  Patience patience_;
  DeviceId id_{};
};

static_assert(sizeof(DeviceHeader) + device_jobs * sizeof(DeviceSlot) <= DeviceDirectory::unit);

}  // namespace isthmus::wire
