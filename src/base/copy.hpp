#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace isthmus {

/// Copies up to 32 bytes with at most two overlapping moves: a call to memcpy costs more than the copy at the
/// sizes that fit into one cache line.
inline void copy_small(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes >= 16) {
    std::byte head[16], tail[16];
    std::memcpy(head, from, 16);
    std::memcpy(tail, from + bytes - 16, 16);
    std::memcpy(to, head, 16);
    std::memcpy(to + bytes - 16, tail, 16);
  } else if (bytes >= 8) {
    std::uint64_t head, tail;
    std::memcpy(&head, from, 8);
    std::memcpy(&tail, from + bytes - 8, 8);
    std::memcpy(to, &head, 8);
    std::memcpy(to + bytes - 8, &tail, 8);
  } else if (bytes >= 4) {
    std::uint32_t head, tail;
    std::memcpy(&head, from, 4);
    std::memcpy(&tail, from + bytes - 4, 4);
    std::memcpy(to, &head, 4);
    std::memcpy(to + bytes - 4, &tail, 4);
  } else {
    for (std::size_t i = 0; i < bytes; ++i)
      to[i] = from[i];
  }
}

/// Hints that the line at `address` will next be read by another core: moves it to the cache that the cores
/// share. A no-operation on processors without CLDEMOTE, which shares its encoding with a long no-op.
inline void demote_line([[maybe_unused]] const void* address) noexcept {
#if defined(__x86_64__)
  asm volatile(".byte 0x0f, 0x1c, 0x00" : : "a"(address) : "memory");
#endif
}

/// Behind reading `bytes` of shared memory that nobody reads again before they are written: writes a byte to
/// each line of them, for processors on which their writer gets them back faster so (`system/processor.hpp`).
inline void hand_back_lines(std::byte* read, std::size_t bytes) noexcept {
  constexpr std::size_t line = 64;
  for (std::size_t at = 0; at < bytes; at += line)
    *static_cast<volatile std::byte*>(read + at) = std::byte{0};
}

/// Fetches the line at `address` for writing, ahead of the write. In assembly: for processors in general GCC
/// makes of `__builtin_prefetch` a fetch for reading, after which the write waits for the line a second time,
/// and drops it where it stands alone in a function. Processors that lack the instruction do nothing.
inline void prefetch_for_write(const void* address) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1, 3);
#endif
}

}  // namespace isthmus
