#pragma once

#include <cstdint>

#include "kernels/body/threads.hpp"

namespace isthmus::kernel {

inline constexpr int copy_pieces = 16;
/// Bytes that a block copies at a time.
inline constexpr std::uint64_t copy_chunk = 16384;

struct CopyArguments {
  struct Piece {
    Byte* to;
    const Byte* from;
    std::uint64_t bytes;
    std::uint64_t first_chunk;  ///< of all pieces' chunks, which are numbered through
  };
  Piece pieces[copy_pieces];
  std::uint64_t chunks;
  std::uint32_t count;
  std::uint32_t reserved;
};

/// A run whose two ends are at the same distance behind a multiple of `Unit`'s size.
template <class Unit>
ISTHMUS_ANYWHERE void copy_units(Byte* to, const Byte* from, std::uint64_t bytes, const Thread& thread) {
  const std::uint64_t ahead =
      (sizeof(Unit) - reinterpret_cast<std::uintptr_t>(to) % sizeof(Unit)) % sizeof(Unit);
  const std::uint64_t head = ahead < bytes ? ahead : bytes;
  const std::uint64_t units = (bytes - head) / sizeof(Unit);
  constexpr int together = 4;
  for (std::uint64_t first = thread.index; first < units; first += std::uint64_t{thread.threads} * together) {
    Unit loaded[together];
    ISTHMUS_UNROLL
    for (int i = 0; i < together; ++i)
      if (const std::uint64_t unit = first + std::uint64_t{thread.threads} * i; unit < units)
        loaded[i] = load<Unit>(from + head + unit * sizeof(Unit));
    ISTHMUS_UNROLL
    for (int i = 0; i < together; ++i)
      if (const std::uint64_t unit = first + std::uint64_t{thread.threads} * i; unit < units)
        store(to + head + unit * sizeof(Unit), loaded[i]);
  }
  const std::uint64_t behind = head + units * sizeof(Unit);
  for (std::uint64_t i = thread.index; i < head + (bytes - behind); i += thread.threads) {
    const std::uint64_t at = i < head ? i : i - head + behind;
    to[at] = from[at];
  }
}

/// By the threads of one block.
ISTHMUS_ANYWHERE void copy_run(Byte* to, const Byte* from, std::uint64_t bytes, const Thread& thread) {
  const std::uint64_t apart = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  if (apart % 16 == 0) return copy_units<Vector>(to, from, bytes, thread);
  if (apart % 8 == 0) return copy_units<std::uint64_t>(to, from, bytes, thread);
  if (apart % 4 == 0) return copy_units<std::uint32_t>(to, from, bytes, thread);
  if (apart % 2 == 0) return copy_units<std::uint16_t>(to, from, bytes, thread);
  copy_units<Byte>(to, from, bytes, thread);
}

ISTHMUS_ANYWHERE void copy(const CopyArguments& work, const Thread& thread) {
  for (std::uint64_t chunk = thread.block; chunk < work.chunks; chunk += thread.blocks) {
    std::uint32_t i = 0;
    while (i + 1 < work.count && chunk >= work.pieces[i + 1].first_chunk)
      ++i;
    const CopyArguments::Piece& piece = work.pieces[i];
    const std::uint64_t at = (chunk - piece.first_chunk) * copy_chunk;
    const std::uint64_t left = piece.bytes - at;
    copy_run(piece.to + at, piece.from + at, left < copy_chunk ? left : copy_chunk, thread);
  }
}

}  // namespace isthmus::kernel
