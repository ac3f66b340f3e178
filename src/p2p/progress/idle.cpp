#include "p2p/progress/idle.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "base/futex.hpp"
#include "base/rank_turns.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/loss_watch.hpp"
#include "p2p/progress/lock.hpp"
#include "p2p/progress/poll_list.hpp"

namespace isthmus {
namespace {

/// One in so many looks reads the clock: about every 1 us. The `pause` instruction is left out between looks,
/// it costs up to 140 cycles on current cores, a fifth of a small message's way.
constexpr std::uint32_t looks_per_clock = 64;

/// A look at a network is a system call.
constexpr std::uint32_t looks_per_clock_networked = 1;

/// Of a program with several threads in MPI.
constexpr std::uint32_t looks_before_yield_threaded = 16;

/// Yields before sleeping when ranks share cores. A sleep and a wake-up cost about 5 us, a turn of 8 ranks on
/// 2 cores about 4 us.
constexpr std::uint32_t yields_before_sleep = 20;

/// The same where messages may come over a network, which wakes a sleeper by way of a thread (`PortWaker`):
/// two sleeps and wake-ups, and the arming. With 20, 50 and 200 an allreduce of 8 bytes in four containers of
/// two ranks took the same 40 to 200 us on two busy cores.
constexpr std::uint32_t yields_before_sleep_networked = 200;

/// A sleeper looks up again after this long whatever happens, so that no lost wake-up can become a hang.
constexpr long sleep_microseconds = 20'000;

/// The same where a message of the network may come without waking this thread.
constexpr long sleep_microseconds_unsure = 100;

/// Looks and yields between virtual machines before the first nap, about 1 ms on a core of one's own, and how
/// long naps get: a message that comes after a silence waits no longer for its receiver.
constexpr std::uint32_t looks_before_nap = 8000;
constexpr long shortest_nap_nanoseconds = 20'000;
constexpr long longest_nap_nanoseconds = 200'000;

/// Of a wait in vain, before it is asked whether all peers live: most waits are over by then.
constexpr std::int64_t nanoseconds_before_look = 60'000'000;
/// Of a wait, before the region is told what it is for, and between two looks whether that has changed.
constexpr std::int64_t nanoseconds_before_telling = 50'000'000;
constexpr std::int64_t nanoseconds_between_tellings = 200'000'000;
/// Of a wait that has news again and again, but not those that it waits for.
constexpr std::uint32_t news_per_clock = 256;

}  // namespace

void Idle::pause() {
  ++looks_;
  if (waiting_.turns) [[unlikely]]
    pause_taking_turns();
  else if (waiting_.links.peers_sleep())
    pause_sharing();
  else if (waiting_.links.peers_nap())
    pause_napping();
  else
    pause_spinning();
}

void Idle::pause_spinning() {
  const bool threaded = waiting_.lock.enabled();
  if (looks_ == 1) {
    waiting_.links.prepare_next_send();
    count_news();
  }
  const bool yields = threaded ? looks_ >= looks_before_yield_threaded : has_polled_enough();
  if (!yields && !threaded) return;
  if (looks_ % looks_per_clock == 0) look_after_peers();
  EngineLock::Released released(waiting_.lock);
  // With several threads in MPI, letting go of a mutex does not let another thread have it unless it gets to
  // run.
  if (yields) ::sched_yield();
}

void Idle::count_news() {
  if (++times_fed_ % news_per_clock == 0) look_after_peers();
}

void Idle::look_after_peers() {
  const auto now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (waited_from_ == 0) {
    waited_from_ = now;
    tell_at_ = now + nanoseconds_before_telling;
  }
  if (now >= tell_at_ && subject_.say) tell(now);
  if (now - waited_from_ >= nanoseconds_before_look) waiting_.losses.look_after_peers();
}

void Idle::tell(std::int64_t now) {
  tell_at_ = now + nanoseconds_between_tellings;
  if (!told_) {
    told_ = true;
    waiting_.telling.begin();
    if (WaitTelling::Witness* const program = waiting_.telling.program()) {
      // To find the name takes a lock of the dynamic linker's, and who holds that may be in MPI.
      const EngineLock::Released released(waiting_.lock);
      call_ = program->call();
    }
  }
  waiting_.telling.tell(*this, subject_, call_, waited_from_, now);
}

bool Idle::has_polled_enough() noexcept {
  const std::uint32_t step = waiting_.has_network ? looks_per_clock_networked : looks_per_clock;
  if (polled_enough_ || looks_ % step != 0) return polled_enough_;
  const auto now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (looks_ == step) began_ = now;
  polled_enough_ = now - began_ >= std::int64_t{1000} * waiting_.links.settings().spin_microseconds;
  return polled_enough_;
}

/// Nobody in another virtual machine can wake this rank.
void Idle::pause_napping() {
  const bool sharing = waiting_.links.shares_cores();
  const std::uint32_t last_look = sharing ? yields_before_sleep : looks_before_nap;
  if (looks_ < last_look && !sharing) return pause_spinning();
  if (looks_ >= last_look) look_after_peers();
  EngineLock::Released released(waiting_.lock);
  if (looks_ < last_look) {
    ::sched_yield();
    return;
  }
  const long longer = static_cast<long>(std::min(looks_ - last_look, std::uint32_t{9}));
  const timespec nap{0, std::min(shortest_nap_nanoseconds * (1 + longer), longest_nap_nanoseconds)};
  ::nanosleep(&nap, nullptr);
}

void Idle::pause_sharing() {
  const std::uint32_t yields = waiting_.has_network ? yields_before_sleep_networked : yields_before_sleep;
  if (looks_ == 1) count_news();
  if (looks_ > yields) look_after_peers();
  const bool has_news = looks_ > yields && !waiting_.polled.arm();
  // Nobody wakes a sleeper when its GPU has copied. Asked here: without the lock, another thread may be at
  // work on the copies.
  const bool may_sleep = looks_ >= yields && !waiting_.polled.wakes_nobody();
  EngineLock::Released released(waiting_.lock);
  if (!may_sleep) {
    ::sched_yield();
    return;
  }
  std::atomic<std::uint32_t>& sleeping = waiting_.links.region().block(waiting_.links.slot()).sleeping;
  if (looks_ == yields) {
    // Announced first, then one more look by the caller, then sleep: who missed the announcement had written
    // before that look.
    sleeping.store(1, std::memory_order_seq_cst);
    announced_ = true;
    return;
  }
  // Another thread that polls the port makes its arming void, and may leave MPI then.
  const bool unsure = waiting_.has_network && waiting_.lock.enabled();
  if (has_news)
    ::sched_yield();
  else if (!waiting_.links.has_doorbell())
    futex_wait(sleeping, 1, unsure ? sleep_microseconds_unsure : sleep_microseconds);
  looks_ = yields - 1;
}

/// The ranks of a worker share its thread: the others go on meanwhile, and only when all of them wait may the
/// worker sleep.
void Idle::pause_taking_turns() {
  RankTurns& turns = *waiting_.turns;
  const bool had_news = looks_ == 1;
  if (had_news) count_news();
  // After a sleep a clock costs nothing any more.
  if (looks_ % looks_per_clock == 0 || sleeps_seen_ != turns.sleeps()) look_after_peers();
  sleeps_seen_ = turns.sleeps();
  bool may_sleep = announced_;
  if (turns.announces()) {
    may_sleep = waiting_.links.peers_sleep() && !waiting_.polled.wakes_nobody() && waiting_.polled.arm();
    if (may_sleep) {
      // As in `pause_sharing`: the turn before the sleep is the look.
      waiting_.links.region().block(waiting_.links.slot()).sleeping.store(1, std::memory_order_seq_cst);
      announced_ = true;
    }
  }
  EngineLock::Released released(waiting_.lock);
  turns.give_way(had_news, may_sleep);
}

void Idle::withdraw() noexcept {
  announced_ = false;
  // Another thread of this rank may still sleep on the word; a wake-up too many is the lesser cost.
  if (!waiting_.lock.enabled())
    waiting_.links.region().block(waiting_.links.slot()).sleeping.store(0, std::memory_order_relaxed);
}

}  // namespace isthmus
