// Preloaded: copies of 4 KiB and more within a process take ten times as long, and 200 us more, from the
// moment at which a program sets `slow_memory`, so that what goes through memory that ranks share is slow.
#define _GNU_SOURCE
#include <stddef.h>
#include <time.h>

int slow_memory;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static void copy(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  // Volatile, or the compiler would call memcpy for it.
  for (size_t i = 0; i < bytes; ++i)
    ((volatile char*)to)[i] = ((const volatile char*)from)[i];
#endif
}

void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
  if (!slow_memory || bytes < 4096) {
    copy(to, from, bytes);
    return to;
  }
  const double begin = now();
  copy(to, from, bytes);
  const double took = now() - begin;
  while (now() < begin + 10 * took + 200e3) {
  }
  return to;
}
