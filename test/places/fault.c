/* Preloaded into a rank: stops it where it calls the C library for the N-th time in what a meeting is made
 * of. FAULT_RANK=CALL:N:kill ends the rank of that number there as kill -9 does, FAULT_RANK=CALL:N:wait holds
 * it for two seconds, FAULT_RANK=list prints each call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <unistd.h>

static void pass(const char* call) {
  static int times[32];
  static const char* calls[32];
  const char* rank = getenv("ISTHMUS_WORLD_RANK");
  char text[64];
  snprintf(text, sizeof text, "FAULT_%s", rank ? rank : "");
  const char* fault = getenv(text);
  if (!rank || !fault) return;
  int at = 0;
  while (calls[at] && strcmp(calls[at], call) != 0)
    ++at;
  calls[at] = call;
  const int count = ++times[at];
  if (strcmp(fault, "list") == 0) {
    const int size = snprintf(text, sizeof text, "call %s:%d\n", call, count);
    if (write(STDERR_FILENO, text, (size_t)size) != size) abort();
  }
  snprintf(text, sizeof text, "%s:%d:kill", call, count);
  if (strcmp(fault, text) == 0) kill(getpid(), SIGKILL);
  snprintf(text, sizeof text, "%s:%d:wait", call, count);
  if (strcmp(fault, text) == 0) sleep(2);
}

/* The symbol is the C library's, the name in C is not: it has another declaration of its own. */
#define ON_CALL(type, name, parameters, arguments)                 \
  type at_##name parameters __asm__(#name);                        \
  type at_##name parameters {                                      \
    static type(*real) parameters;                                 \
    if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
    pass(#name);                                                   \
    return real arguments;                                         \
  }

ON_CALL(int, bind, (int fd, const struct sockaddr* address, socklen_t size), (fd, address, size))
ON_CALL(int, listen, (int fd, int queue), (fd, queue))
ON_CALL(int, connect, (int fd, const struct sockaddr* address, socklen_t size), (fd, address, size))
ON_CALL(int, accept4, (int fd, struct sockaddr* address, socklen_t* size, int flags),
        (fd, address, size, flags))
ON_CALL(ssize_t, sendmsg, (int fd, const struct msghdr* message, int flags), (fd, message, flags))
ON_CALL(ssize_t, recvmsg, (int fd, struct msghdr* message, int flags), (fd, message, flags))
ON_CALL(ssize_t, send, (int fd, const void* bytes, size_t size, int flags), (fd, bytes, size, flags))
ON_CALL(ssize_t, recv, (int fd, void* bytes, size_t size, int flags), (fd, bytes, size, flags))
ON_CALL(int, memfd_create, (const char* name, unsigned flags), (name, flags))
ON_CALL(int, ftruncate, (int fd, off_t size), (fd, size))
ON_CALL(int, unlink, (const char* path), (path))
ON_CALL(int, shmget, (key_t key, size_t size, int flags), (key, size, flags))
ON_CALL(void*, shmat, (int id, const void* address, int flags), (id, address, flags))
ON_CALL(int, shmctl, (int id, int command, struct shmid_ds* status), (id, command, status))
ON_CALL(int, nanosleep, (const struct timespec* time, struct timespec* left), (time, left))
ON_CALL(int, clock_nanosleep,
        (clockid_t clock, int flags, const struct timespec* time, struct timespec* left),
        (clock, flags, time, left))
