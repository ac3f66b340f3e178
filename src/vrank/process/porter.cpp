#include "vrank/process/porter.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/futex.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/whole_number.hpp"
#include "channel/cma/cma.hpp"
#include "vrank/process/move_steps.hpp"
#include "vrank/process/process.hpp"

namespace isthmus::vrank {
namespace {

/// The other process wakes who waits for it: this is for what is lost.
constexpr long wait_microseconds = 1'000'000;

}  // namespace

/// How many ranks each process has been started with.
Result<std::uint32_t> Porter::ranks_per_process() const {
  const char* const text = std::getenv(launcher_variable::migratable);
  const std::string_view after = text ? std::string_view(text) : std::string_view();
  const auto colon = after.rfind(':');
  const auto each =
      colon == std::string_view::npos ? std::nullopt : whole_number<std::uint32_t>(after.substr(colon + 1));
  if (!each || *each == 0 || parts_.region.view.slots() != parts_.world)
    return fail(ErrorClass::arg, std::string(launcher_variable::migratable) + " makes no sense");
  return *each;
}

HostMoves Porter::moves(std::uint32_t each, int box) const {
  HostMoves moves;
  const std::uint32_t workers = parts_.scheduler.workers_asked();
  for (std::uint32_t first = 0; first < parts_.world; first += each)
    for (std::uint32_t worker = 0; worker < std::min({workers, each, parts_.world - first}); ++worker)
      moves.workers.push_back({first, worker});
  moves.process = parts_.first_slot;
  moves.region = parts_.region.fd.get();
  moves.box = box;
  moves.why_tied = [](Fiber& fiber) {
    Rank& rank = *static_cast<Rank*>(fiber.owner);
    return rank.process->why_tied(rank);
  };
  return moves;
}

Result<> Porter::prepare(int box) {
  auto each = ranks_per_process();
  if (!each) return std::unexpected(std::move(each).error());
  struct stat status{};
  if (::fstat(parts_.region.fd.get(), &status) != 0)
    return fail(ErrorClass::other, "fstat: " + std::generic_category().message(errno));
  region_file_ = {.fd = parts_.region.fd.get(), .file = {status.st_dev, status.st_ino}, .known = {}};
  parts_.memory.begin(parts_.world);
  Scheduler& scheduler = parts_.scheduler;
  scheduler.allow_moves(moves(*each, box), parts_.world);
  for (std::uint32_t i = 0; i < scheduler.workers(); ++i)
    scheduler.worker(i).expect_ranks(parts_.region.view.block(parts_.first_slot + i).process_wakes);
  return {};
}

void Porter::begin() {
  region_file_.known = open_descriptors();
  region_file_.libraries = loaded_objects();
  thread_ = std::jthread([this](const std::stop_token& ends) { carry(ends); });
}

std::string Porter::why_tied(Rank& rank) const {
  const RankSpace space = space_of(rank.number);
  if (auto locals = own_thread_locals(space)) rank.locals = *locals;
  const std::lock_guard lock(looking_);
  return vrank::why_tied(space, region_file_);
}

// --- a rank leaves

/// Has the process that `rank` is for take it over; whether it has.
bool Porter::ask(Rank& rank, wire::Departure& departure) const {
  const HostWorker to = rank.fiber.destination;
  const std::vector<MoveStep> steps = [&] {
    const std::lock_guard lock(looking_);
    return steps_of(space_of(rank.number), parts_.file, reinterpret_cast<std::uint64_t>(rank.fiber.context),
                    rank.locals, likeness_here(parts_.process_top));
  }();
  // The process that it has come from may not have seen yet that it has.
  for (std::uint32_t state = 0;
       (state = departure.state.load(std::memory_order_acquire)) != wire::Departure::none;)
    futex_wait(departure.state, state, wait_microseconds);
  departure.process = to.process;
  departure.worker = to.worker;
  departure.steps = static_cast<std::uint32_t>(steps.size());
  departure.address = reinterpret_cast<std::uint64_t>(steps.data());
  departure.state.store(wire::Departure::asked, std::memory_order_seq_cst);
  wire::RankBlock& process = parts_.region.view.block(to.process);
  process.calls.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(process.calls);
  while (departure.state.load(std::memory_order_acquire) == wire::Departure::asked)
    futex_wait(departure.state, wire::Departure::asked, wait_microseconds);
  const std::uint32_t answer = departure.state.exchange(wire::Departure::none, std::memory_order_acq_rel);
  futex_wake(departure.state);
  return answer == wire::Departure::taken;
}

void Porter::depart(Rank& rank) noexcept {
  const std::uint32_t number = rank.number;
  std::fflush(stdout);
  {
    const std::lock_guard lock(mutex_);
    leaving_.insert(number);
  }
  parts_.scheduler.leaves(number);
  const bool is_gone = ask(rank, parts_.region.view.block(rank.slot).departure);
  // From here on, what was the rank's may be another process's.
  if (is_gone) let_go(space_of(number));
  {
    const std::lock_guard lock(mutex_);
    leaving_.erase(number);
  }
  has_left_.notify_all();
  if (is_gone) return;
  rank.fiber.why_not = "the other process could not take it over";
  parts_.scheduler.comes(number, rank.fiber, rank.fiber.home->index());
}

void Porter::tell_of_end() const noexcept {
  std::uint32_t last = ~std::uint32_t{0};
  for (const HostWorker& each : parts_.scheduler.moves().workers) {
    if (std::exchange(last, each.process) == each.process) continue;
    std::atomic<std::uint32_t>& calls = parts_.region.view.block(each.process).calls;
    calls.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(calls);
  }
}

// --- ranks come: on the porter's thread

void Porter::carry(const std::stop_token& ends) {
  std::atomic<std::uint32_t>& calls = parts_.region.view.block(parts_.first_slot).calls;
  while (!ends.stop_requested()) {
    const std::uint32_t seen = calls.load(std::memory_order_seq_cst);
    look_for_arrivals();
    if (have_all_ended()) return parts_.scheduler.end_of_moves();
    futex_wait(calls, seen, wait_microseconds);
  }
}

void Porter::look_for_arrivals() {
  for (std::uint32_t slot = 0; slot < parts_.region.view.slots(); ++slot) {
    const wire::Departure& departure = parts_.region.view.block(slot).departure;
    if (departure.state.load(std::memory_order_acquire) == wire::Departure::asked &&
        departure.process == parts_.first_slot)
      arrive(slot);
  }
}

void Porter::arrive(std::uint32_t slot) noexcept {
  wire::Departure& departure = parts_.region.view.block(slot).departure;
  const std::uint32_t worker = departure.worker;
  Result<> taken = take_in(slot);
  if (!taken)
    warn("rank " + std::to_string(slot) + " cannot go on in another process: " + taken.error().text());
  departure.state.store(taken ? wire::Departure::taken : wire::Departure::failed, std::memory_order_seq_cst);
  futex_wake(departure.state);
  if (!taken) return;
  auto& rank = *static_cast<Rank*>(RankMemory::of(space_of(slot))->rank);
  parts_.scheduler.comes(rank.number, rank.fiber, worker);
}

Result<> Porter::take_in(std::uint32_t slot) {
  wire::RankBlock& block = parts_.region.view.block(slot);
  const RankSpace space = space_of(slot);
  const pid_t from = block.place.pid;
  std::vector<MoveStep> steps(block.departure.steps);
  ISTHMUS_TRY(cma::read(from, block.departure.address, steps.data(), steps.size() * sizeof(MoveStep)));
  {
    std::unique_lock lock(mutex_);
    has_left_.wait(lock, [&] { return !leaving_.contains(slot); });
  }
  auto pointer = parts_.threads.pointer_of(slot, space.thread_end());
  if (!pointer) return std::unexpected(std::move(pointer).error());
  if (!copies_.contains(slot)) {
    ISTHMUS_TRY(RankCopy::make_room(parts_.file, space.program()));
    copies_.insert(slot);
  }
  ISTHMUS_TRY(take_over(steps, from, space, region_file_, likeness_here(parts_.process_top)));
  auto& rank = *static_cast<Rank*>(RankMemory::of(space)->rank);
  if (*pointer != rank.fiber.thread) {
    let_go(space);
    return fail(ErrorClass::other, "its thread-local storage would lie elsewhere");
  }
  parts_.process.take_in(rank);
  rank.copy.arrive(parts_.file);
  block.process.store(parts_.first_slot + 1, std::memory_order_release);
  return {};
}

bool Porter::have_all_ended() const noexcept {
  for (std::uint32_t slot = 0; slot < parts_.region.view.slots(); ++slot)
    if (parts_.region.view.block(slot).ending.load(std::memory_order_acquire) == 0) return false;
  return true;
}

}  // namespace isthmus::vrank
