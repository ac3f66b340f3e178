#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <vector>

#include "common/report.hpp"
#include "raw/limits.hpp"
#include "raw/pair.hpp"

namespace isthmus::bench {
namespace {

constexpr int processes = 8;
constexpr std::size_t used_cores = 2;

// Restricts this process, and the children it makes, to the first two cores until the end of the scope.
class OnTwoCores {
 public:
  OnTwoCores() {
    sched_getaffinity(0, sizeof before_, &before_);
    const std::vector<int> cores = usable_cores();
    cpu_set_t two;
    CPU_ZERO(&two);
    for (std::size_t i = 0; i < used_cores && i < cores.size(); ++i)
      CPU_SET(cores[i], &two);
    if (sched_setaffinity(0, sizeof two, &two) != 0) throw_errno("sched_setaffinity");
  }
  ~OnTwoCores() { sched_setaffinity(0, sizeof before_, &before_); }
  OnTwoCores(const OnTwoCores&) = delete;
  OnTwoCores& operator=(const OnTwoCores&) = delete;

 private:
  cpu_set_t before_;
};

void give_way() {
  sched_yield();
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

// All processes yield in a loop: the time that one yield takes, with the switch to another process in it.
void yields(double budget) {
  struct Counter {
    alignas(cache_line) std::atomic<long> yields{0};
  };
  struct State {
    Counter counter[processes];
    std::atomic<bool> stop{false};
  };
  const OnTwoCores two_cores;
  Shared<State> state;
  std::vector<Child> children;
  children.reserve(processes);
  for (Counter& counter : state->counter)
    children.emplace_back([&state, &counter] {
      while (!state->stop.load(std::memory_order_relaxed)) {
        give_way();
        counter.yields.fetch_add(1, std::memory_order_relaxed);
      }
    });
  const auto total = [&state] {
    long sum = 0;
    for (const Counter& counter : state->counter)
      sum += counter.yields.load(std::memory_order_relaxed);
    return sum;
  };
  usleep(20000);
  const long before = total();
  const double start = now_seconds();
  usleep(static_cast<useconds_t>(budget * 1e6));
  const double elapsed = now_seconds() - start;
  const long done = total() - before;
  state->stop.store(true);
  if (done == 0) return report_failure("yield", "no process came to yield");
  report_value("yield", Unit::nanoseconds, elapsed * used_cores / static_cast<double>(done) * 1e9);
}

// A barrier of one shared counter: the least that an 8-rank collective on 2 cores needs. Waiting processes
// either yield, or sleep in the kernel until the last one wakes them all.
struct Rendezvous {
  alignas(cache_line) std::atomic<std::uint32_t> arrived{0};
  alignas(cache_line) std::atomic<std::uint32_t> generation{0};

  template <class Wait, class Wake>
  void meet(Wait wait, Wake wake) {
    const std::uint32_t mine = generation.load(std::memory_order_acquire);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == processes) {
      arrived.store(0, std::memory_order_relaxed);
      generation.store(mine + 1, std::memory_order_release);
      wake(generation);
      return;
    }
    while (generation.load(std::memory_order_acquire) == mine)
      wait(generation, mine);
  }
};

template <class Wait, class Wake>
void meeting(double budget, const char* point, Wait wait, Wake wake) {
  struct State {
    Rendezvous rendezvous;
    std::atomic<long> operations{0};
  };
  const OnTwoCores two_cores;
  Shared<State> state;
  const auto once = [&state, wait, wake] { state->rendezvous.meet(wait, wake); };
  std::vector<Child> children;
  children.reserve(processes);
  for (int i = 1; i < processes; ++i)
    children.emplace_back([&state, once] {
      // The announcement is made before the leader enters this meeting, and read after it.
      const auto receive = [&] {
        once();
        return state->operations.load(std::memory_order_acquire);
      };
      measure_following(receive, repeat(once));
    });
  const auto announce = [&](long operations) {
    state->operations.store(operations, std::memory_order_release);
    once();
  };
  report_samples(point, Unit::microseconds, measure_leading(budget, announce, repeat(once)));
}

}  // namespace

void switching_limits(double budget) {
  yields(budget);
  meeting(
      budget, "barrier-8-yielding", [](std::atomic<std::uint32_t>&, std::uint32_t) { give_way(); },
      [](std::atomic<std::uint32_t>&) {});
  meeting(
      budget, "barrier-8-sleeping",
      [](std::atomic<std::uint32_t>& word, std::uint32_t seen) { futex(word, FUTEX_WAIT, seen); },
      [](std::atomic<std::uint32_t>& word) { futex(word, FUTEX_WAKE, INT_MAX); });
}

}  // namespace isthmus::bench
