#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace isthmus {

/// Sleeps while `word` holds `expected`, at most `microseconds`. Works across processes that share the
/// memory.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, long microseconds) noexcept {
  const timespec limit{microseconds / 1'000'000, microseconds % 1'000'000 * 1000};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, &limit, nullptr, 0);
}

/// Wakes all that sleep on `word`.
inline void futex_wake(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Tells the core that this is a polling loop.
inline void cpu_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace isthmus
