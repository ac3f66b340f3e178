#include "stream/proxy.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <system_error>

#include "base/futex.hpp"
#include "base/system/blocked_signals.hpp"
#include "launch/leave_core.hpp"
#include "p2p/engine.hpp"

namespace isthmus::stream {
namespace {

using Clock = std::chrono::steady_clock;

/// Yields before the first nap, of a rank that has a core for each thread that spins, and of one that has
/// not.
constexpr std::chrono::milliseconds before_napping{1};
constexpr std::uint32_t yields_of_shared_core = 50;
constexpr long shortest_nap = 20'000;  // nanoseconds
constexpr long longest_nap = 200'000;

/// A parked thread looks up after this long whatever happens.
constexpr long parked_microseconds = 1'000'000;

constexpr std::size_t most_failures = 64;

/// What it does between two fruitless looks.
class Pace {
 public:
  explicit Pace(const Engine& engine) noexcept
      : shares_cores_(engine.peers_sleep()), spins_(engine.settings().spin_microseconds) {}

  void reset() noexcept { fruitless_ = 0; }
  void rest() noexcept {
    if (fruitless_++ == 0) began_ = Clock::now();
    if (shares_cores_) {
      if (fruitless_ <= yields_of_shared_core)
        ::sched_yield();
      else
        nap();
      return;
    }
    const auto waited = Clock::now() - began_;
    if (waited < spins_)
      cpu_pause();
    else if (waited < before_napping)
      ::sched_yield();
    else
      nap();
  }

 private:
  void nap() noexcept {
    naps_ = fruitless_ <= last_nap_ ? 1 : naps_ + 1;
    last_nap_ = fruitless_;
    const timespec length{0, std::min(shortest_nap * static_cast<long>(std::min(naps_, 10U)), longest_nap)};
    ::nanosleep(&length, nullptr);
  }

  const bool shares_cores_;
  const std::chrono::microseconds spins_;
  std::uint32_t fruitless_ = 0;
  std::uint32_t last_nap_ = 0;
  std::uint32_t naps_ = 0;
  Clock::time_point began_;
};

}  // namespace

Proxy::Proxy(Engine& engine) : engine_(engine) {
  failures_.reserve(most_failures);
}

Result<std::unique_ptr<Proxy>> Proxy::start(Engine& engine) {
  std::unique_ptr<Proxy> made(new Proxy(engine));
  const BlockedSignals blocked;
  try {
    made->thread_ = std::thread([proxy = made.get()] { proxy->run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, "no thread for a stream's operations: " + std::string(error.what()));
  }
  return made;
}

Proxy::~Proxy() {
  if (!thread_.joinable()) return;
  const EngineLock::Released released(engine_.lock());
  ending_.store(true, std::memory_order_seq_cst);
  parked_.store(0, std::memory_order_seq_cst);
  futex_wake(parked_);
  thread_.join();
}

void Proxy::add(const Ref<Enqueued>& what) {
  {
    const std::scoped_lock lock(mutex_);
    running_.reserve(running_.size() + queue_.size() + recorded_.size() + 1);
    if (what->is_recorded)
      recorded_.push_back(what);
    else
      queue_.push_back(what);
  }
  if (parked_.exchange(0, std::memory_order_seq_cst) != 0) futex_wake(parked_);
}

void Proxy::withdraw(const Enqueued& what) noexcept {
  const std::scoped_lock lock(mutex_);
  if (what.is_recorded)
    recorded_.pop_back();
  else
    queue_.pop_back();
}

std::size_t Proxy::outstanding() const {
  const std::scoped_lock lock(mutex_);
  return queue_.size() + running_.size();
}

std::optional<Error> Proxy::take_failure(const Communicator* comm) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(
      failures_, [&](const Failure& failure) { return !comm || failure.context == comm->context_id(); });
  if (found == failures_.end()) return std::nullopt;
  const ContextId context = found->context;
  std::optional<Error> first(std::move(found->error));
  std::erase_if(failures_, [&](const Failure& failure) { return failure.context == context; });
  return first;
}

void Proxy::run() noexcept {
  // Naps of 20 us would last 70 with the slack of 50 us that threads have.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  launch::leave_core(engine_.job());
  Pace pace(engine_);
  while (!ending_.load(std::memory_order_acquire)) {
    // Both, always: what has been started must not wait for a stream that never pauses.
    const bool began = begin_next();
    const bool ended = end_complete();
    if (began || ended || !has_work())
      pace.reset();
    else
      pace.rest();
  }
  // A copy under way writes to the program's memory.
  for (;;) {
    {
      const std::scoped_lock lock(mutex_);
      if (running_.empty()) return;
    }
    if (!end_complete()) pace.rest();
  }
}

bool Proxy::has_work() {
  {
    const std::scoped_lock lock(mutex_);
    if (!queue_.empty() || !running_.empty() || !recorded_.empty()) return true;
    // Whoever adds something from here on finds it parked.
    parked_.store(1, std::memory_order_seq_cst);
  }
  if (!ending_.load(std::memory_order_seq_cst)) futex_wait(parked_, 1, parked_microseconds);
  parked_.store(0, std::memory_order_relaxed);
  return false;
}

/// The first that is set. One before it may have been set since it was looked at, and comes first then: who
/// sees a word of a stream sees all that it has written before.
std::vector<Ref<Enqueued>>::iterator Proxy::find_recorded() {
  const auto is_set = [](const Ref<Enqueued>& each) { return each->words.has_gone(); };
  const auto found = std::ranges::find_if(recorded_, is_set);
  return found == recorded_.end() ? found : std::find_if(recorded_.begin(), found, is_set);
}

/// The stream gets to what is behind a graph when all of the graph's operations are complete, because each is
/// waited for within. So all recorded ones that are set at one time are of one launch, and one beside them
/// that is not recorded came before that. It is looked at last, since it may have been set after a first look
/// at it, and before theirs.
Enqueued* Proxy::next() {
  const std::scoped_lock lock(mutex_);
  const auto recorded = find_recorded();
  if (!queue_.empty() && queue_.front()->words.has_gone()) {
    running_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  } else if (recorded != recorded_.end()) {
    running_.push_back(*recorded);
  } else {
    return nullptr;
  }
  running_.back()->words.set_back();
  return running_.back().get();
}

bool Proxy::begin_next() noexcept {
  Enqueued* const what = next();
  if (!what) return false;
  const std::scoped_lock lock(engine_.lock());
  Result<> started;
  try {
    started = what->operation->start();
  } catch (const std::bad_alloc&) {
    started = std::unexpected(Error(ErrorClass::no_mem));
  }
  if (!started) end(*what, started);
  return true;
}

Enqueued* Proxy::find_complete() {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(
      running_, [](const Ref<Enqueued>& each) { return each->operation->is_complete(); });
  return found == running_.end() ? nullptr : found->get();
}

bool Proxy::end_complete() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (running_.empty()) return false;
  }
  const std::scoped_lock lock(engine_.lock());
  bool any = engine_.progress() != 0;
  while (Enqueued* const what = find_complete()) {
    Result<> outcome;
    try {
      outcome = what->operation->finish();
    } catch (const std::bad_alloc&) {
      outcome = std::unexpected(Error(ErrorClass::no_mem));
    }
    end(*what, outcome);
    any = true;
  }
  return any;
}

/// With the engine's lock held: this may be the last that knows of the operation and its communicator.
void Proxy::end(Enqueued& what, const Result<>& outcome) noexcept {
  Ref<Enqueued> alive;
  {
    const std::scoped_lock lock(mutex_);
    if (!outcome) keep_failure(what, outcome.error());
    const auto found = std::ranges::find(running_, &what, &Ref<Enqueued>::get);
    alive = std::move(*found);
    running_.erase(found);
  }
  what.words.release_stream();
  engine_.wake_threads();
}

/// The first of each communicator: others may follow from it.
void Proxy::keep_failure(const Enqueued& what, const Error& error) noexcept {
  const ContextId context = what.communicator->context_id();
  if (failures_.size() == most_failures ||
      std::ranges::find(failures_, context, &Failure::context) != failures_.end())
    return;
  try {
    std::string text =
        std::string(what.function) + ", operation " + std::to_string(what.number) + " of its stream, failed";
    if (!error.text().empty()) text += ": " + error.text();
    failures_.push_back({context, Error(error.error_class(), std::move(text))});
  } catch (const std::bad_alloc&) {
    failures_.push_back({context, Error(error.error_class())});
  }
}

}  // namespace isthmus::stream
