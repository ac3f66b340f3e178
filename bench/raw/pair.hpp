// Two processes, or two threads, each on a core of its own, that do their halves of an operation.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "common/measure.hpp"

namespace isthmus::bench {

[[noreturn]] inline void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// The cores this process may run on.
inline std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) throw_errno("sched_getaffinity");
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

// Ties the calling thread to a core until the end of the scope.
class Pinned {
 public:
  explicit Pinned(int core) {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) throw_errno("sched_getaffinity");
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) throw_errno("sched_setaffinity");
  }
  ~Pinned() { sched_setaffinity(0, sizeof before_, &before_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_;
};

// An anonymous mapping that children inherit; holds one T.
template <class T>
class Shared {
 public:
  Shared() {
    void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw_errno("mmap");
    value_ = new (memory) T();
  }
  ~Shared() { munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

// A child process that runs `body` and ends; waited for, at the latest, by the destructor.
class Child {
 public:
  template <class Body>
  explicit Child(const Body& body) {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw_errno("fork");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      body();
      _exit(0);
    }
  }
  ~Child() {
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child& operator=(Child&&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

constexpr std::size_t cache_line = 64;

// How the leader tells its follower how many operations come next.
struct Announcement {
  alignas(cache_line) std::atomic<long> operations{0};
  alignas(cache_line) std::atomic<long> number{0};
  alignas(cache_line) std::atomic<long> received{0};

  // Returns when the follower has it, so that no announcement overtakes another.
  void announce(long count) {
    operations.store(count, std::memory_order_relaxed);
    const long mine = number.fetch_add(1, std::memory_order_release) + 1;
    while (received.load(std::memory_order_acquire) != mine) {
    }
  }
  // The next announcement after the one numbered `seen`.
  long receive(long& seen) {
    while (number.load(std::memory_order_acquire) == seen) {
    }
    const long count = operations.load(std::memory_order_relaxed);
    received.store(++seen, std::memory_order_release);
    return count;
  }
};

// Times `lead` on the first core of this process against `follow` in a child on the second. Both are single
// operations; `follow` runs once for every run of `lead`.
template <class Lead, class Follow>
Samples measure_pair(double budget, Lead lead, Follow follow) {
  const std::vector<int> cores = usable_cores();
  if (cores.size() < 2) throw std::system_error(ENODEV, std::generic_category(), "two cores are needed");
  Shared<Announcement> control;
  const Child child([&] {
    const Pinned pinned(cores[1]);
    long seen = 0;
    measure_following([&] { return control->receive(seen); }, repeat(follow));
  });
  const Pinned pinned(cores[0]);
  return measure_leading(budget, [&](long n) { control->announce(n); }, repeat(lead));
}

}  // namespace isthmus::bench
