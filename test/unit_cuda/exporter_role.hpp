#pragma once

#include "roles.hpp"

namespace isthmus::testing_cuda {

/// What a process that exports GPU memory is asked for, as `Letter::code`; it answers each with a letter.
enum class Wish : int {
  allocate,  ///< memory of the kind `Letter::number` (a `MemoryKind`) of 1 MiB, filled with 1: the export and
             ///< its descriptor
  fill,      ///< with the byte `number`
  free,
  allocate_again,  ///< of the same kind and size, at the same address if that works: its export
  event,           ///< an event of the process, recorded after a wait for `release`
  release,
};

inline constexpr std::size_t exported_bytes = 1 << 20U;
inline constexpr std::size_t exported_offset = 4096;

/// Plays the role "exporter". Its buffer begins at `exported_offset` of the allocation.
Letter wish(Player& exporter, Wish what, std::uint64_t number = 0, UniqueFd* descriptor = nullptr);

}  // namespace isthmus::testing_cuda
