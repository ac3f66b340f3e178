/* What a process holds in memory, read from /proc/self without allocating: C, so that the smallest program
 * can use it. */
#ifndef ISTHMUS_BENCH_RESIDENT_H
#define ISTHMUS_BENCH_RESIDENT_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All in KiB; -1 where the kernel does not say. */
struct bench_resident {
  long peak; /* VmHWM: the most that was ever resident */
  long rss;  /* resident now, shared pages counted in full */
  long pss;  /* resident now, a page shared by n processes counted as 1/n */
};

/* The number after "KEY:" in a file of /proc, or -1. */
static inline long bench_proc_number(const char* path, const char* key) {
  static char text[8192];
  const char* found;
  ssize_t length;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return -1;
  text[length] = '\0';
  found = strstr(text, key);
  return found == NULL ? -1 : strtol(found + strlen(key), NULL, 10);
}

static inline struct bench_resident bench_resident_now(void) {
  struct bench_resident now;
  now.peak = bench_proc_number("/proc/self/status", "VmHWM:");
  now.rss = bench_proc_number("/proc/self/smaps_rollup", "\nRss:");
  now.pss = bench_proc_number("/proc/self/smaps_rollup", "\nPss:");
  return now;
}

/* Appends one line "peak rss pss" to the file; a single write, so that the lines of many processes stay
 * whole. Returns 0, or -1 with errno set. */
static inline int bench_resident_append(const char* path) {
  const struct bench_resident now = bench_resident_now();
  char line[96];
  int fd, length;
  ssize_t written;
  length = snprintf(line, sizeof line, "%ld %ld %ld\n", now.peak, now.rss, now.pss);
  fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return -1;
  written = write(fd, line, (size_t)length);
  close(fd);
  return written == length ? 0 : -1;
}

#endif
