// Preloaded: copies by the kernel between processes take ten times as long, and 200 us more, from the moment
// at which a program sets `slow_copies`: longer than any other way, also with cores far from each other. With
// SLOW_WRITES_ONLY in the environment, copies to another process alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

struct iovec;  // not <sys/uio.h>, whose declarations these definitions stand before

int slow_copies;

typedef ssize_t transfer(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long,
                         unsigned long);

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static ssize_t slowly(const char* name, pid_t pid, const struct iovec* local, unsigned long locals,
                      const struct iovec* remote, unsigned long remotes, unsigned long flags) {
  transfer* const real = (transfer*)dlsym(RTLD_NEXT, name);
  const double begin = now();
  const ssize_t copied = real(pid, local, locals, remote, remotes, flags);
  const double took = now() - begin;
  while (slow_copies && now() < begin + 10 * took + 200e3) {
  }
  return copied;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec* local, unsigned long locals,
                         const struct iovec* remote, unsigned long remotes, unsigned long flags) {
  transfer* const real = (transfer*)dlsym(RTLD_NEXT, "process_vm_readv");
  if (getenv("SLOW_WRITES_ONLY")) return real(pid, local, locals, remote, remotes, flags);
  return slowly("process_vm_readv", pid, local, locals, remote, remotes, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec* local, unsigned long locals,
                          const struct iovec* remote, unsigned long remotes, unsigned long flags) {
  return slowly("process_vm_writev", pid, local, locals, remote, remotes, flags);
}
