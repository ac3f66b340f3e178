#include "p2p/progress_thread.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/futex.hpp"
#include "base/system/blocked_signals.hpp"
#include "launch/leave_core.hpp"
#include "p2p/engine.hpp"

namespace isthmus {
namespace {

/// Fruitless looks, with yields between, before the first nap: 10 to 100 us; on a core that nobody else has
/// ten times as many.
constexpr std::uint32_t looks_before_napping = 100;
constexpr std::uint32_t looks_on_spare_core = 1000;
constexpr long shortest_rest = 20'000;  // nanoseconds
constexpr long longest_rest = 200'000;

/// On a core that nobody else has, how long a thread that has nothing to do looks whether it gets something,
/// before it sleeps: who is woken by the kernel begins 50 us later on a virtual machine.
constexpr std::chrono::microseconds lingering{300};

/// A parked thread looks up after this long whatever happens.
constexpr long parked_microseconds = 1'000'000;

/// After the last of some looks in vain, of which `looks` are followed by others at once.
void rest(std::uint32_t fruitless, std::uint32_t looks) {
  if (fruitless < looks) {
    ::sched_yield();
    return;
  }
  const long longer = static_cast<long>(fruitless - looks);
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
  state_.store(works, std::memory_order_seq_cst);
  futex_wake(state_);
  engine_.wake_threads();
  thread_.join();
}

bool ProgressThread::is_needed() const noexcept {
  return engine_.requests().living() != 0 && engine_.lock().waiting() == 0;
}

void ProgressThread::leaving() noexcept {
  if (state_.load(std::memory_order_relaxed) == works || !is_needed()) return;
  if (state_.exchange(works, std::memory_order_seq_cst) == parked) futex_wake(state_);
}

void ProgressThread::run() noexcept {
  // Naps of 20 us would last 70 with the slack of 50 us that threads have.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  launch::leave_core(engine_.job());
  EngineLock& lock = engine_.lock();
  Idle idle(engine_.waiting());
  const bool has_core = !engine_.job().spare_cpus.empty();
  const std::uint32_t looks = has_core ? looks_on_spare_core : looks_before_napping;
  std::uint32_t fruitless = 0;
  std::uint32_t refused = 0;  // times in a row that another thread had the lock
  while (!ending_.load(std::memory_order_acquire)) {
    if (lock.is_wanted() || !lock.try_lock()) {
      rest(refused++, has_core ? looks : 0);
      continue;
    }
    refused = 0;
    const bool needed = is_needed();
    const unsigned happened = needed ? engine_.progress() : 0;
    fruitless = happened != 0 ? 0 : fruitless + 1;
    if (happened != 0) idle.reset();
    if (!needed)
      state_.store(has_core ? lingers : parked, std::memory_order_relaxed);
    else if (happened == 0 && engine_.peers_sleep())
      idle.pause();
    lock.unlock();
    if (!needed) {
      idle.reset();
      park();
      fruitless = 0;
    } else if (happened == 0 && !engine_.peers_sleep()) {
      rest(fruitless, looks);
    }
  }
}

void ProgressThread::park() {
  const auto since = std::chrono::steady_clock::now();
  while (state_.load(std::memory_order_acquire) == lingers && !ending_.load(std::memory_order_acquire)) {
    ::sched_yield();
    if (std::chrono::steady_clock::now() - since < lingering) continue;
    std::uint32_t lingered = lingers;
    state_.compare_exchange_strong(lingered, parked, std::memory_order_seq_cst);
  }
  if (!ending_.load(std::memory_order_seq_cst)) futex_wait(state_, parked, parked_microseconds);
  state_.store(works, std::memory_order_relaxed);
}

}  // namespace isthmus
