#include "vrank/worker.hpp"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cerrno>
#include <utility>

#include "base/futex.hpp"
#include "base/ticks.hpp"
#include "vrank/rank_thread.hpp"
#include "vrank/scheduler.hpp"

namespace isthmus::vrank {
namespace {

namespace context = boost::context::detail;

/// Turns of those who have been written to, before somebody else has one: some waits are for memory that
/// rings no bell.
constexpr std::uint32_t most_picks = 16;
/// Turns of each rank without any news, before the worker lets others run between two rounds, and before it
/// begins to sleep: a round of 8 ranks takes 0.3 us, a sleep and a wake-up about 5.
constexpr std::uint32_t rounds_before_yield = 16;
constexpr std::uint32_t rounds_before_sleep = 80;
/// Turns from this length on, about 20 us, may have been interrupted by another thread: the clock of the
/// thread is read at their end, a system call of 0.3 to 0.8 us.
constexpr std::uint64_t long_turn_ticks = 50'000;
/// The worker looks up again after this long whatever happens, so that no lost wake-up can become a hang.
constexpr long sleep_microseconds = 20'000;

bool has_been_written_to(const Fiber& fiber) noexcept {
  return std::ranges::any_of(fiber.post.doorbells,
                             [](const auto& word) { return word.load(std::memory_order_relaxed) != 0; });
}

}  // namespace

Worker::Reading Worker::Reading::now() noexcept {
  const auto read = [](clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
  };
  return {.ticks = isthmus::ticks(),
          .nanoseconds = read(CLOCK_MONOTONIC),
          .on_processor = read(CLOCK_THREAD_CPUTIME_ID)};
}

std::uint64_t Worker::Reading::lost_since(const Reading& earlier) const noexcept {
  const auto passed = static_cast<double>(nanoseconds - earlier.nanoseconds);
  const auto had = static_cast<double>(on_processor - earlier.on_processor);
  if (had >= passed || ticks < earlier.ticks) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(ticks - earlier.ticks) * (1 - had / passed));
}

/// After a time without turns, which began at `left`, and in which the thread may have had no processor.
void Worker::come_back(std::uint64_t left) noexcept {
  since_ = ticks();
  if (since_ > left) away_ += since_ - left;
}

/// And of the next begin: for how many ticks it has had a processor.
std::uint64_t Worker::end_turn() noexcept {
  const std::uint64_t now = ticks();
  const std::uint64_t began = std::exchange(since_, now);
  const std::uint64_t turn = now > began ? now - began : 0;  // the clock of another core may be behind
  if (turn < long_turn_ticks) return turn;
  const Reading reading = Reading::now();
  std::uint64_t lost = reading.lost_since(std::exchange(read_, reading));
  lost -= std::min(lost, std::exchange(away_, 0));
  return turn - std::min(turn, lost);
}

// Nothing that is thread-local lives over the jump: the thread pointer changes before it.
[[gnu::noinline]] void Worker::switch_to(Fiber& to) noexcept {
  Fiber& from = *current_;
  current_ = &to;
  if (switches_environment_) {
    from.environment = environ;
    environ = to.environment;
  }
  RankThread::set_pointer(to.thread);
  const context::transfer_t came = context::jump_fcontext(to.context, &from);
  static_cast<Fiber*>(came.data)->context = came.fctx;
}

Fiber* Worker::run() {
  if (read_.ticks == 0) {
    read_ = Reading::now();
    since_ = read_.ticks;
  }
  main_.thread = RankThread::own_pointer();
  main_.environment = environ;
  while (true) {
    admit();
    if (!last_) {
      if (!wait_for_rank()) return nullptr;
      continue;
    }
    enter(Stage::busy);
    come_back(since_);
    switch_to(*last_->next);
    if (Fiber* const ended = std::exchange(ended_, nullptr)) {
      if (!ended->leaves) process_.has_ended(*ended);
      return ended;
    }
    // Not before it has left its stack, which the other goes on with at once.
    destination_->receive(*std::exchange(leaving_, nullptr));
  }
}

/// False where there is none left in the process.
bool Worker::wait_for_rank() noexcept {
  std::atomic<std::uint32_t>& word = *wakes_.load(std::memory_order_relaxed);
  const std::uint32_t seen = word.load(std::memory_order_seq_cst);
  if (arrivals_.load(std::memory_order_seq_cst)) return true;
  if (!process_.has_ranks()) return false;
  futex_wait(word, seen, sleep_microseconds);
  return true;
}

void Worker::receive(Fiber& fiber) noexcept {
  fiber.attach(*this, state_);
  fiber.next = arrivals_.load(std::memory_order_relaxed);
  while (!arrivals_.compare_exchange_weak(fiber.next, &fiber, std::memory_order_seq_cst))
    ;
  wake();
}

void Worker::admit() noexcept {
  if (!arrivals_.load(std::memory_order_relaxed)) return;
  // They have the next turns: else a rank that moves waits for a round of all others. The latest comes first
  // in the list, and last in the circle.
  Fiber* next = nullptr;
  for (Fiber* each = arrivals_.exchange(nullptr, std::memory_order_acquire); each; each = next) {
    next = each->next;
    Fiber* const before = current_ == &main_ ? last_ : current_;
    each->next = before ? std::exchange(before->next, each) : each;
    if (!last_) last_ = each;
    ++living_;
    sleep_with(*each);
  }
  enter(Stage::busy);
}

void Worker::sleep_with(Fiber& fiber) {
  if (!fiber.post.sleep_with) return;
  std::atomic<std::uint32_t>* const word = fiber.post.sleep_with(index_);
  if (!word || own_) return;
  wakes_.store(word, std::memory_order_seq_cst);
  enter(Stage::busy);  // what has been announced was said of another word
}

void Worker::remove(Fiber& fiber) noexcept {
  Fiber* before = &fiber;
  while (before->next != &fiber)
    before = before->next;
  before->next = fiber.next;
  // So that the next one has the first turn.
  last_ = before == &fiber ? nullptr : before;
  --living_;
}

void Worker::move(Fiber& fiber, Worker& to) noexcept {
  remove(fiber);
  leaving_ = &fiber;
  destination_ = &to;
  fiber.work += end_turn();
  switch_to(main_);
}

// In the other process all that this thread has is another's: nothing of it is used after the switch.
void Worker::leave(Fiber& fiber) noexcept {
  remove(fiber);
  ended_ = &fiber;
  fiber.leaves = true;
  fiber.work += end_turn();
  switch_to(main_);
}

void Worker::end(Fiber& fiber) noexcept {
  remove(fiber);
  ended_ = &fiber;
  switch_to(main_);
  __builtin_unreachable();
}

Fiber* Worker::choose(Fiber& fiber) noexcept {
  if (stage_ == Stage::busy && picks_ < most_picks)
    for (Fiber* each = fiber.next; each != &fiber; each = each->next)
      if (has_been_written_to(*each)) {
        ++picks_;
        return each;
      }
  picks_ = 0;
  return fiber.next;
}

// After a switch this may no longer be the worker of the rank.
void Worker::give_way(Fiber& fiber, bool had_news, bool may_sleep) noexcept {
  if (is_one_of_several_) {
    if (fiber.home != this) return move(fiber, *fiber.home);
    const std::uint64_t turn = end_turn();
    if (had_news) fiber.work += turn;
    admit();
  }
  if (had_news)
    enter(Stage::busy);
  else
    had_no_news(may_sleep);
  if (Fiber* const next = choose(fiber); next != &fiber) switch_to(*next);
}

std::uint64_t Worker::take_work(Fiber& fiber) noexcept {
  if (!is_one_of_several_) return 0;
  return std::exchange(fiber.work, 0) + end_turn();
}

void Worker::enter(Stage stage) noexcept {
  stage_ = stage;
  fruitless_ = 0;
  state_.announces = stage == Stage::announcing;
  if (!state_.announces) return;
  all_may_sleep_ = true;
  // Who wakes this worker from now on counts it up, before or after it sleeps.
  wakes_seen_ = wakes_.load(std::memory_order_relaxed)->load(std::memory_order_seq_cst);
}

void Worker::had_no_news(bool may_sleep) noexcept {
  ++fruitless_;
  switch (stage_) {
    case Stage::busy:
      if (fruitless_ >= rounds_before_yield * living_ && fruitless_ % living_ == 0) let_others_run();
      if (fruitless_ >= rounds_before_sleep * living_) enter(Stage::announcing);
      return;
    case Stage::announcing:
      all_may_sleep_ = all_may_sleep_ && may_sleep;
      if (fruitless_ < living_) return;
      if (all_may_sleep_) return enter(Stage::checking);
      let_others_run();
      return enter(Stage::announcing);
    case Stage::checking:
      if (!may_sleep) return enter(Stage::announcing);  // it is another wait than the one that has announced
      if (fruitless_ < living_) return;
      sleep();
      return enter(Stage::announcing);
  }
}

void Worker::let_others_run() noexcept {
  const std::uint64_t left = ticks();
  ::sched_yield();
  come_back(left);
}

void Worker::sleep() noexcept {
  const std::uint64_t left = ticks();
  const int kept = errno;  // it is that of the rank in whose turn nobody had news
  futex_wait(*wakes_.load(std::memory_order_relaxed), wakes_seen_, sleep_microseconds);
  errno = kept;
  ++state_.sleeps;
  come_back(left);
}

// A rank that joins meanwhile has its worker sleep on another word, and look again before it does.
void Worker::wake() noexcept {
  std::atomic<std::uint32_t>& word = *wakes_.load(std::memory_order_seq_cst);
  word.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(word);
}

}  // namespace isthmus::vrank
