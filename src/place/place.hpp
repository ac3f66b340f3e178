#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "place/cpu_set.hpp"

namespace isthmus {

/// Kernel namespaces, in the order in which `Place::namespaces` has them.
enum class Namespace : std::uint8_t { ipc, mnt, net, pid, user, uts };

/// The inode number of this process's; 0 where /proc does not tell.
std::uint64_t namespace_here(Namespace kind) noexcept;

/// 128 bits that nobody can guess.
using Secret = std::array<std::uint8_t, 16>;

/// The facts that a process publishes about where it is, once, through its launcher's key-value space.
/// Whoever can read that space belongs to the job. They say where trying is worth the while; whether two
/// processes do share memory is found by doing it.
struct Place {
  std::array<std::uint8_t, 16> boot{};        ///< the kernel's boot id, zeros where /proc does not tell
  std::array<std::uint64_t, 6> namespaces{};  ///< inode numbers, 0 where /proc does not tell
  std::uint32_t pid = 0;                      ///< in its own namespace
  std::uint32_t uid = 0;                      ///< in its own namespace
  CpuSet cpus;                                ///< where it may run
  std::string host;                           ///< for people only
  /// Written into shared memory by this process, and compared there with what it published.
  std::uint64_t nonce = 0;
  std::uint64_t socket = 0;  ///< names its broker's sockets
  Secret key{};              ///< what its broker asks for, if it is the first of its kernel
  Secret region{};           ///< key of the region that it inherited, zeros if none
  std::uint64_t shm = 0;     ///< which file system /dev/shm is, 0 if there is none
  bool has_folder = false;   ///< ISTHMUS_RENDEZVOUS_DIR is set
  std::int32_t package = -1, numa = -1, core = -1;  ///< what it is bound to, -1 if not to one
  std::string device;                               ///< of the ivshmem device that it may use, empty if none

  [[nodiscard]] std::uint64_t in(Namespace kind) const noexcept {
    return namespaces[static_cast<std::size_t>(kind)];
  }
  /// Whether both see the same namespace of that kind: inode numbers are unique among those that live.
  [[nodiscard]] bool shares(Namespace kind, const Place& other) const noexcept {
    return in(kind) != 0 && in(kind) == other.in(kind);
  }
  [[nodiscard]] bool has_region() const noexcept { return region != Secret{}; }

  /// Of this process, with fresh random numbers.
  static Result<Place> here();

  /// At most a few hundred bytes, any of them.
  [[nodiscard]] std::string encode() const;
  /// Fails with a sentence on whatever `encode` of this release has not made.
  static Result<Place> decode(std::string_view bytes);
};

}  // namespace isthmus
