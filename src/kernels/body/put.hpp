#pragma once

#include <isthmus/device.cuh>

#include <cstdint>

#include "kernels/body/copy.hpp"

namespace isthmus::kernel {

inline constexpr std::uint32_t put_threads = 512;
inline constexpr std::uint32_t put_pieces = 8;
/// What one block copies at least as soon as a copy engine has begun to: 32 KiB at 36 GB/s take 0.9 us.
inline constexpr std::uint64_t put_most_bytes = std::uint64_t{32} << 10U;

/// Copies, and words that are written when all of the bytes are where everybody sees them.
struct PutArguments {
  struct Piece {
    Byte* to;
    const Byte* from;
    std::uint64_t bytes;
  };
  struct Word {
    std::uint32_t* at;
    std::uint64_t value;
  };
  Piece pieces[put_pieces];
  Word words[2 * put_pieces];
  std::uint32_t piece_count;
  std::uint32_t word_count;
};

ISTHMUS_DEVICE_FUNCTION void store_word_32(std::uint32_t* to, std::uint32_t value) {
#if defined(__CUDACC__)
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
#else
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
#endif
}

/// By one block.
ISTHMUS_DEVICE_FUNCTION void put(const PutArguments& work) {
  const device::ByBlock by;
  for (std::uint32_t i = 0; i < work.piece_count; ++i)
    copy_run(work.pieces[i].to, work.pieces[i].from, work.pieces[i].bytes, {by.index(), by.size(), 0, 1});
  by.sync();
  if (by.index() != 0) return;
  device::detail::fence_system();
  for (std::uint32_t i = 0; i < work.word_count; ++i)
    store_word_32(work.words[i].at, static_cast<std::uint32_t>(work.words[i].value));
}

}  // namespace isthmus::kernel
