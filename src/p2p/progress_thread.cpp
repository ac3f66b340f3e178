#include "p2p/progress_thread.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <system_error>

#include "base/futex.hpp"
#include "base/system/blocked_signals.hpp"
#include "launch/leave_core.hpp"
#include "p2p/engine.hpp"

namespace isthmus {
namespace {

/// Fruitless looks, with yields between, before the first nap: 10 to 100 us.
constexpr std::uint32_t looks_before_napping = 100;
constexpr long shortest_rest = 20'000;  // nanoseconds
constexpr long longest_rest = 200'000;

/// A parked thread looks up after this long whatever happens.
constexpr long parked_microseconds = 1'000'000;

void rest(std::uint32_t fruitless) {
  if (fruitless < looks_before_napping) {
    ::sched_yield();
    return;
  }
  const long longer = static_cast<long>(fruitless - looks_before_napping);
  const timespec nap{0, std::min(shortest_rest * (1 + longer), longest_rest)};
  ::nanosleep(&nap, nullptr);
}

}  // namespace

Result<std::unique_ptr<ProgressThread>> ProgressThread::start(Engine& engine) {
  std::unique_ptr<ProgressThread> made(new ProgressThread(engine));
  const BlockedSignals blocked;
  try {
    made->thread_ = std::thread([thread = made.get()] { thread->run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, "ISTHMUS_PROGRESS=thread: " + std::string(error.what()));
  }
  engine.lock().lock();
  engine.lock().watch(made.get());
  engine.lock().unlock();
  return made;
}

ProgressThread::~ProgressThread() {
  if (!thread_.joinable()) return;
  engine_.lock().watch(nullptr);
  const EngineLock::Released released(engine_.lock());
  ending_.store(true, std::memory_order_seq_cst);
  parked_.store(0, std::memory_order_seq_cst);
  futex_wake(parked_);
  engine_.wake_threads();
  thread_.join();
}

bool ProgressThread::is_needed() const noexcept {
  return engine_.requests().living() != 0 && engine_.lock().waiting() == 0;
}

void ProgressThread::leaving() noexcept {
  if (parked_.load(std::memory_order_relaxed) == 0 || !is_needed()) return;
  parked_.store(0, std::memory_order_seq_cst);
  futex_wake(parked_);
}

void ProgressThread::run() noexcept {
  // Naps of 20 us would last 70 with the slack of 50 us that threads have.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  launch::leave_core(engine_.job());
  EngineLock& lock = engine_.lock();
  Idle idle(engine_.waiting());
  std::uint32_t fruitless = 0;
  while (!ending_.load(std::memory_order_acquire)) {
    if (lock.is_wanted() || !lock.try_lock()) {
      rest(looks_before_napping);
      continue;
    }
    const bool needed = is_needed();
    const unsigned happened = needed ? engine_.progress() : 0;
    fruitless = happened != 0 ? 0 : fruitless + 1;
    if (happened != 0) idle.reset();
    if (!needed)
      parked_.store(1, std::memory_order_relaxed);
    else if (happened == 0 && engine_.peers_sleep())
      idle.pause();
    lock.unlock();
    if (!needed) {
      idle.reset();
      park();
      fruitless = 0;
    } else if (happened == 0 && !engine_.peers_sleep()) {
      rest(fruitless);
    }
  }
}

void ProgressThread::park() {
  if (!ending_.load(std::memory_order_seq_cst)) futex_wait(parked_, 1, parked_microseconds);
  parked_.store(0, std::memory_order_relaxed);
}

}  // namespace isthmus
