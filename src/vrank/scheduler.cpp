#include "vrank/scheduler.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>

#include "base/futex.hpp"

namespace isthmus::vrank {
namespace {

namespace context = boost::context::detail;

/// Turns of those who have been written to, before somebody else has one: some waits are for memory that
/// rings no bell.
constexpr std::uint32_t most_picks = 16;
/// Turns of each rank without any news, before the process lets others run between two rounds, and before it
/// begins to sleep: a round of 8 ranks takes 0.3 us, a sleep and a wake-up about 5.
constexpr std::uint32_t rounds_before_yield = 16;
constexpr std::uint32_t rounds_before_sleep = 80;
/// The process looks up again after this long whatever happens, so that no lost wake-up can become a hang.
constexpr long sleep_microseconds = 20'000;

struct Beginning {
  void (*begin)(void*);
  void* argument;
};

void keep(context::transfer_t from) noexcept {
  static_cast<Fiber*>(from.data)->context = from.fctx;
}

bool has_been_written_to(const Fiber& fiber) noexcept {
  return std::ranges::any_of(fiber.post.doorbells,
                             [](const auto& word) { return word.load(std::memory_order_relaxed) != 0; });
}

}  // namespace

Scheduler::Scheduler(std::uint32_t first, std::uint32_t count, const Edge& edge)
    : first_(first), count_(count), edge_(edge) {
  main_.thread = RankThread::own_pointer();
  main_.environment = environ;
}

void Scheduler::joined(const RankPost& post) {
  current_->post = post;
  if (!post.wakes) return;
  wakes_.store(post.wakes, std::memory_order_seq_cst);
  enter(Stage::busy);  // what has been announced was said of another word
}

void Scheduler::add(Fiber& fiber, const RankStack& stack, void (*begin)(void*), void* argument) {
  fiber.context = context::make_fcontext(stack.top(), stack.bytes(), [](context::transfer_t from) {
    // The first thing that is handed over is where to begin, and then comes the first turn.
    const Beginning beginning = *static_cast<Beginning*>(from.data);
    keep(context::jump_fcontext(from.fctx, nullptr));
    beginning.begin(beginning.argument);
  });
  Beginning beginning{begin, argument};
  fiber.context = context::jump_fcontext(fiber.context, &beginning).fctx;
  fiber.next = last_ ? last_->next : &fiber;
  if (last_) last_->next = &fiber;
  last_ = &fiber;
  ++living_;
}

// Nothing that is thread-local lives over the jump: the thread pointer changes before it.
[[gnu::noinline]] void Scheduler::switch_to(Fiber& to) noexcept {
  Fiber& from = *current_;
  from.environment = environ;
  current_ = &to;
  environ = to.environment;
  edge_.make_current(to.runtime);
  RankThread::set_pointer(to.thread);
  keep(context::jump_fcontext(to.context, &from));
}

Fiber* Scheduler::run() {
  main_.runtime = main_.runtime ? main_.runtime : last_ ? last_->runtime : nullptr;
  if (!last_) return nullptr;
  enter(Stage::busy);
  switch_to(*last_->next);
  return ended_;
}

void Scheduler::end() noexcept {
  Fiber& gone = *current_;
  Fiber* before = &gone;
  while (before->next != &gone)
    before = before->next;
  before->next = gone.next;
  // So that the next one has the first turn.
  last_ = before == &gone ? nullptr : before;
  --living_;
  ended_ = &gone;
  switch_to(main_);
  __builtin_unreachable();
}

Fiber* Scheduler::choose() noexcept {
  if (stage_ == Stage::busy && picks_ < most_picks)
    for (Fiber* each = current_->next; each != current_; each = each->next)
      if (has_been_written_to(*each)) {
        ++picks_;
        return each;
      }
  picks_ = 0;
  return current_->next;
}

void Scheduler::give_way(bool had_news, bool may_sleep) noexcept {
  if (had_news)
    enter(Stage::busy);
  else
    had_no_news(may_sleep);
  if (Fiber* const next = choose(); next != current_) switch_to(*next);
}

void Scheduler::enter(Stage stage) noexcept {
  stage_ = stage;
  fruitless_ = 0;
  announces_ = stage == Stage::announcing;
  if (!announces_) return;
  all_may_sleep_ = true;
  // Who wakes this process from now on counts it up, before or after it sleeps.
  wakes_seen_ = wakes_.load(std::memory_order_relaxed)->load(std::memory_order_seq_cst);
}

void Scheduler::had_no_news(bool may_sleep) noexcept {
  ++fruitless_;
  switch (stage_) {
    case Stage::busy:
      if (fruitless_ >= rounds_before_yield * living_ && fruitless_ % living_ == 0) ::sched_yield();
      if (fruitless_ >= rounds_before_sleep * living_) enter(Stage::announcing);
      return;
    case Stage::announcing:
      all_may_sleep_ = all_may_sleep_ && may_sleep;
      if (fruitless_ < living_) return;
      if (all_may_sleep_) return enter(Stage::checking);
      ::sched_yield();
      return enter(Stage::announcing);
    case Stage::checking:
      if (!may_sleep) return enter(Stage::announcing);  // it is another wait than the one that has announced
      if (fruitless_ < living_) return;
      sleep();
      return enter(Stage::announcing);
  }
}

void Scheduler::sleep() noexcept {
  futex_wait(*wakes_.load(std::memory_order_relaxed), wakes_seen_, sleep_microseconds);
  ++sleeps_;
}

// A rank that joins meanwhile has its process sleep on another word, and look again before it does.
void Scheduler::wake() noexcept {
  std::atomic<std::uint32_t>& word = *wakes_.load(std::memory_order_seq_cst);
  word.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(word);
}

}  // namespace isthmus::vrank
