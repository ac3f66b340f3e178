#pragma once

#include <isthmus/device.cuh>

#include <cstdint>

#include "kernels/body/copy.hpp"

/// What prepared puts and gets become on a stream: copies with words behind them, and waits for words.
namespace isthmus::kernel {

inline constexpr std::uint32_t put_threads = 512;
inline constexpr std::uint32_t put_pieces = 8;
/// More go by a copy engine, which leaves the multiprocessors to the program and is no slower: one way, 1 MiB
/// took 7.8 us by kernel and 10.8 by copy engine, 4 MiB 16.0 and 20.1, 16 MiB 50 and 52 (two H200).
inline constexpr std::uint64_t put_most_bytes = std::uint64_t{4} << 20U;
/// Where an end lies behind the PCIe: what one block copies at least as soon as a copy engine has begun to.
inline constexpr std::uint64_t put_most_unlinked = std::uint64_t{32} << 10U;
/// Of one block, which copies 43 GB/s; and blocks, of which 16 to 128 were alike from 1 MiB on.
inline constexpr std::uint64_t put_block_bytes = std::uint64_t{16} << 10U;
inline constexpr std::uint32_t put_most_blocks = 32;

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
  std::uint32_t* done;  ///< blocks that are; 0 before and after. Of one block alone it may be null
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
ISTHMUS_DEVICE_FUNCTION std::uint32_t acquire_word_32(const std::uint32_t* from) {
#if defined(__CUDACC__)
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
#else
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
#endif
}

/// By a grid: the block that is done last writes the words.
ISTHMUS_DEVICE_FUNCTION void put(const PutArguments& work) {
  const device::ByBlock by;
  const device::ByGrid all;
  const std::uint32_t blocks = device::block_count();
  for (std::uint32_t i = 0; i < work.piece_count; ++i)
    copy_run(work.pieces[i].to, work.pieces[i].from, work.pieces[i].bytes, {all.index(), all.size(), 0, 1});
  by.sync();
  if (by.index() != 0) return;
  device::detail::fence_system();
  if (blocks > 1) {
    if (device::detail::take_number(work.done) != blocks - 1) return;
    *work.done = 0;
    device::detail::fence_system();
  }
  for (std::uint32_t i = 0; i < work.word_count; ++i)
    store_word_32(work.words[i].at, static_cast<std::uint32_t>(work.words[i].value));
}

inline constexpr std::uint32_t wait_words = 32;

enum class WordCondition : std::uint32_t { equal, at_least, any_bit };

ISTHMUS_ANYWHERE bool holds(std::uint32_t now, std::uint32_t value, WordCondition condition) {
  if (condition == WordCondition::equal) return now == value;
  if (condition == WordCondition::any_bit) return (now & value) != 0;
  return static_cast<std::int32_t>(now - value) >= 0;
}

/// Words of this GPU's memory, all of which are to fulfil a condition.
struct WaitArguments {
  std::uint32_t* words[wait_words];
  const device::u64* ended;  ///< of the host: not 0 when to wait no longer
  std::uint32_t count;
  std::uint32_t value;
  WordCondition condition;
  std::uint32_t resets;  ///< 1: each is 0 then
};

/// By one warp, of which each lane looks at a word of its own. What was put before the words were written is
/// there for all that follows on the stream.
ISTHMUS_DEVICE_FUNCTION void wait_for_words(const WaitArguments& work) {
  const device::ByWarp by;
  for (std::uint32_t i = by.index(); i < work.count; i += by.size()) {
    std::uint32_t* const word = work.words[i];
    for (std::uint32_t looks = 1; !holds(acquire_word_32(word), work.value, work.condition); ++looks) {
      if (looks % device::detail::looks_per_question == 0 && device::detail::load_word(work.ended) != 0)
        return;
      device::detail::pause();
    }
    if (work.resets != 0) store_word_32(word, 0);
  }
}

}  // namespace isthmus::kernel
