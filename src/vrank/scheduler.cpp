#include "vrank/scheduler.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <utility>

#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {
namespace {

namespace context = boost::context::detail;

/// The rank of this thread-local storage. Read at each end of a turn: one instruction by this model.
[[gnu::tls_model("initial-exec")]] constinit thread_local Fiber* current_fiber = nullptr;

struct Beginning {
  void (*begin)(void*);
  void* argument;
  Fiber* fiber;
  const Edge* edge;
};

void keep(context::transfer_t from) noexcept {
  static_cast<Fiber*>(from.data)->context = from.fctx;
}

/// The first thing that is handed over is where to begin, and then comes the first turn.
void start(context::transfer_t from) {
  const Beginning beginning = *static_cast<Beginning*>(from.data);
  keep(context::jump_fcontext(from.fctx, nullptr));
  current_fiber = beginning.fiber;
  beginning.edge->make_current(beginning.fiber->runtime);
  beginning.begin(beginning.argument);
}

/// Returns in another process: its caller reads all anew.
[[gnu::noinline]] void leave_turn(Fiber& fiber) noexcept {
  fiber.at.load(std::memory_order_relaxed)->leave(fiber);
}

}  // namespace

// --- ranks
// ---------------------------------------------------------------------------------------------------------------------------------

bool Fiber::is_here(std::uint32_t rank) const noexcept {
  return at.load(std::memory_order_relaxed)->process().is_here(rank);
}

void Fiber::joined(RankPost its_post) {
  post = std::move(its_post);
  Worker& own = *at.load(std::memory_order_relaxed);
  own.sleep_with(*this);
  own.process().has_joined(*this);
}

void Fiber::give_way(bool had_news, bool may_sleep) noexcept {
  at.load(std::memory_order_relaxed)->give_way(*this, had_news, may_sleep);
}

// The rank may move meanwhile: it looks again where it arrives.
void Fiber::wake() noexcept {
  at.load(std::memory_order_seq_cst)->wake();
}

void Fiber::await_all() noexcept {
  if (std::exchange(has_awaited, true)) return;
  const Scheduler& process = at.load(std::memory_order_relaxed)->process();
  for (bool had_news = true; !process.has_spread(); had_news = false)
    give_way(had_news, announces());
  move_to(home->index());
  static_cast<void>(take_work());  // before MPI_Init it is no work of the program's
}

std::uint32_t Fiber::worker() const noexcept {
  return home->index();
}

std::uint32_t Fiber::workers() const noexcept {
  return home->process().workers();
}

bool Fiber::can_move() const noexcept {
  return home->process().has_spread();
}

void Fiber::move_to(std::uint32_t to) noexcept {
  home = &home->process().worker(to);
  visit(to);
}

void Fiber::visit(std::uint32_t to) noexcept {
  Worker& now = *at.load(std::memory_order_relaxed);
  if (now.index() != to) now.move(*this, now.process().worker(to));
}

std::uint64_t Fiber::take_work() noexcept {
  return at.load(std::memory_order_relaxed)->take_work(*this);
}

std::span<const HostWorker> Fiber::host_workers() const noexcept {
  return home->process().moves().workers;
}

HostLines* Fiber::lines() const noexcept {
  return home->process().moves().lines;
}

std::uint32_t Fiber::process() const noexcept {
  return home->process().moves().process;
}

std::string Fiber::why_tied() {
  return home->process().moves().why_tied(*this);
}

Result<> Fiber::leave_for(HostWorker to) {
  destination = to;
  why_not = nullptr;
  leave_turn(*this);
  RankThread::renew_locale();
  if (why_not) return fail(ErrorClass::other, why_not);
  return {};
}

int Fiber::region_descriptor() const noexcept {
  return home->process().moves().region;
}

int Fiber::box_descriptor() const noexcept {
  return home->process().moves().box;
}

// --- the process
// ---------------------------------------------------------------------------------------------------------------------------

Scheduler::Scheduler(std::uint32_t first, std::uint32_t count, std::uint32_t workers, const Edge& edge)
    : first_(first), count_(count), asked_(workers), edge_(edge), environment_(environ) {
  workers = std::min(workers, std::max(count, std::uint32_t{1}));
  fibers_.reserve(count);
  for (std::uint32_t i = 0; i < workers; ++i)
    workers_.push_back(std::make_unique<Worker>(*this, i, workers > 1));
}

void Scheduler::add(Fiber& fiber, const RankStack& stack, void (*begin)(void*), void* argument) {
  Beginning beginning{begin, argument, &fiber, &edge_};
  fiber.context = context::make_fcontext(stack.top(), stack.bytes(), &start);
  fiber.context = context::jump_fcontext(fiber.context, &beginning).fctx;
  fiber.home = workers_.front().get();
  fibers_.push_back(&fiber);
  living_.fetch_add(1, std::memory_order_relaxed);
  workers_.front()->receive(fiber);
}

Fiber* Scheduler::current() noexcept {
  return current_fiber;
}

void Scheduler::end() noexcept {
  Fiber& fiber = *current_fiber;
  fiber.at.load(std::memory_order_relaxed)->end(fiber);
}

void Scheduler::has_joined(Fiber& fiber) noexcept {
  // Until all have, worker 0 has all of them, and counts alone.
  if (std::exchange(fiber.has_joined, true) || ++joined_ < count_) return;
  if (workers_.size() > 1) spread();
}

void Scheduler::has_ended(Fiber& fiber) noexcept {
  if (!fiber.has_joined) has_joined(fiber);
  if (living_.fetch_sub(1, std::memory_order_seq_cst) > 1) return;
  for (const auto& each : workers_)
    each->wake();
}

void Scheduler::allow_moves(HostMoves moves, std::uint32_t world) {
  moves_ = std::move(moves);
  here_ = std::vector<std::atomic<bool>>(world);
  for (std::uint32_t rank = first_; rank < first_ + count_; ++rank)
    here_[rank].store(true, std::memory_order_relaxed);
  living_.fetch_add(1, std::memory_order_relaxed);
}

void Scheduler::end_of_moves() noexcept {
  if (living_.fetch_sub(1, std::memory_order_seq_cst) > 1) return;
  for (const auto& each : workers_)
    each->wake();
}

void Scheduler::leaves(std::uint32_t rank) noexcept {
  here_[rank].store(false, std::memory_order_release);
  living_.fetch_sub(1, std::memory_order_seq_cst);
}

void Scheduler::comes(std::uint32_t rank, Fiber& fiber, std::uint32_t worker) noexcept {
  here_[rank].store(true, std::memory_order_release);
  living_.fetch_add(1, std::memory_order_seq_cst);
  fiber.leaves = false;
  fiber.home = workers_[worker].get();
  workers_[worker]->receive(fiber);
}

void Scheduler::spread() noexcept {
  if (Fiber* const current = current_fiber) current->environment = environ;
  environ = environment_;
  switches_environment_.store(false, std::memory_order_relaxed);
  workers_.front()->keep_environment();
  for (std::size_t i = 0; i < fibers_.size(); ++i)
    fibers_[i]->home = workers_[i * workers_.size() / fibers_.size()].get();
}

}  // namespace isthmus::vrank
