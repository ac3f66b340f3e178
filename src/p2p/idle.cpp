#include "p2p/idle.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>

#include "base/futex.hpp"
#include "p2p/engine.hpp"

namespace isthmus {
namespace {

/// Looks before the first yield when every rank has a core: about 50 us. The `pause` instruction is left out,
/// it costs up to 140 cycles on current cores, a fifth of a small message's way.
constexpr std::uint32_t looks_before_yield = 4000;

constexpr std::uint32_t looks_before_yield_threaded = 16;

/// A look at a network is a system call.
constexpr std::uint32_t looks_before_yield_networked = 50;

/// Yields before sleeping when ranks share cores. A sleep and a wake-up cost about 5 us, a turn of 8 ranks on
/// 2 cores about 4 us.
constexpr std::uint32_t yields_before_sleep = 20;

/// The same where messages may come over a network, which wakes nobody. Four containers of two ranks on two
/// cores: after 20 yields, an allreduce of 8 bytes fell into a pace of 2.4 ms in some runs, one sleep
/// waiting for the end of another; after 200 it took 52 to 70 us in all.
constexpr std::uint32_t yields_before_sleep_networked = 200;

/// A sleeper looks up again after this long whatever happens, so that no lost wake-up can become a hang.
constexpr long sleep_microseconds = 20'000;

/// The same where messages may come over a network too, which wakes nobody.
constexpr long sleep_microseconds_networked = 100;

/// Looks and yields between virtual machines before the first nap, about 1 ms on a core of one's own, and how
/// long naps get: a message that comes after a silence waits no longer for its receiver.
constexpr std::uint32_t looks_before_nap = 8000;
constexpr long shortest_nap_nanoseconds = 20'000;
constexpr long longest_nap_nanoseconds = 200'000;

}  // namespace

void Idle::pause() {
  ++looks_;
  if (engine_.sleeps_)
    pause_sharing();
  else if (engine_.naps_)
    pause_napping();
  else
    pause_spinning();
}

void Idle::pause_spinning() {
  const bool threaded = engine_.lock_.enabled();
  if (looks_ == 1) engine_.prepare_next_send();
  const std::uint32_t looks = threaded          ? looks_before_yield_threaded
                              : engine_.remote_ ? looks_before_yield_networked
                                                : looks_before_yield;
  if (looks_ < looks && !threaded) return;
  EngineLock::Released released(engine_.lock_);
  // With several threads in MPI, letting go of a mutex does not let another thread have it unless it gets to
  // run.
  if (looks_ >= looks) ::sched_yield();
}

/// Nobody in another virtual machine can wake this rank.
void Idle::pause_napping() {
  const bool sharing = engine_.shares_cores_;
  const std::uint32_t last_look = sharing ? yields_before_sleep : looks_before_nap;
  if (looks_ < last_look && !sharing) return pause_spinning();
  EngineLock::Released released(engine_.lock_);
  if (looks_ < last_look) {
    ::sched_yield();
    return;
  }
  const long longer = static_cast<long>(std::min(looks_ - last_look, std::uint32_t{9}));
  const timespec nap{0, std::min(shortest_nap_nanoseconds * (1 + longer), longest_nap_nanoseconds)};
  ::nanosleep(&nap, nullptr);
}

void Idle::pause_sharing() {
  EngineLock::Released released(engine_.lock_);
  const std::uint32_t yields = engine_.remote_ ? yields_before_sleep_networked : yields_before_sleep;
  // Nobody wakes a sleeper when its GPU has copied.
  if (looks_ < yields || engine_.copies_run()) {
    ::sched_yield();
    return;
  }
  std::atomic<std::uint32_t>& sleeping = engine_.region_.block(engine_.slot_).sleeping;
  if (looks_ == yields) {
    // Announced first, then one more look by the caller, then sleep: who missed the announcement had written
    // before that look.
    sleeping.store(1, std::memory_order_seq_cst);
    announced_ = true;
    return;
  }
  if (!engine_.has_doorbell())
    futex_wait(sleeping, 1, engine_.remote_ ? sleep_microseconds_networked : sleep_microseconds);
  looks_ = yields - 1;
}

void Idle::withdraw() noexcept {
  announced_ = false;
  // Another thread of this rank may still sleep on the word; a wake-up too many is the lesser cost.
  if (!engine_.lock_.enabled())
    engine_.region_.block(engine_.slot_).sleeping.store(0, std::memory_order_relaxed);
}

}  // namespace isthmus
