#include "vrank/process/porter.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "base/futex.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/sip_hash.hpp"
#include "channel/cma/cma.hpp"
#include "vrank/hosts/handshake.hpp"
#include "vrank/process/move_steps.hpp"
#include "vrank/process/process.hpp"

namespace isthmus::vrank {
namespace {

/// The other process wakes who waits for it: this is for what is lost.
constexpr long wait_microseconds = 1'000'000;

/// What comes first over a line with a rank.
struct Luggage {
  std::uint32_t worker;
  std::uint32_t steps;  ///< how many: these come next, and then what they copy
};

}  // namespace

HostMoves Porter::moves(const JobLayout& layout, int box) const {
  HostMoves moves;
  const std::uint32_t workers = parts_.scheduler.workers_asked();
  for (const JobLayout::Process& process : layout.processes)
    for (std::uint32_t worker = 0; worker < std::min(workers, process.count); ++worker)
      moves.workers.push_back({process.first, worker, process.host});
  moves.lines = lines_.get();
  moves.process = parts_.first_slot;
  moves.region = parts_.region.fd.get();
  moves.box = box;
  moves.why_tied = [](Fiber& fiber) {
    Rank& rank = *static_cast<Rank*>(fiber.owner);
    return rank.process->why_tied(rank);
  };
  return moves;
}

/// Processes of several hosts find each other, and have to be alike.
Result<> Porter::open_lines(const JobLayout& layout, const LauncherDescriptors& launcher) {
  lines_ = std::make_unique<Lines>(layout, parts_.first_slot, parts_.region.view);
  auto address = lines_->open();
  if (!address) return std::unexpected(std::move(address).error());
  const wire::RegionLayout& region = parts_.region.view.layout();
  const std::array laid_out{region.blocks, region.doorbells, region.waits,      region.directory,
                            region.rings,  region.heap,      region.ring_bytes, region.bytes};
  address->likeness = {.program = sip_hash({}, parts_.file.bytes()),
                       .libraries = likeness_here(parts_.process_top),
                       .processor = likeness_of_processor(),
                       .region = sip_hash({}, std::as_bytes(std::span(laid_out)))};
  auto all = exchange(launcher, layout, *address);
  if (!all) return std::unexpected(std::move(all).error());
  return lines_->connect(std::move(*all));
}

Result<> Porter::prepare(const Given& given) {
  const char* const word = std::getenv(launcher_variable::migratable);
  auto layout = JobLayout::parse(word ? word : "", parts_.world);
  if (!layout) return std::unexpected(std::move(layout).error());
  if (parts_.region.view.slots() != parts_.world)
    return fail(ErrorClass::arg, std::string(launcher_variable::region) + " makes no sense");
  struct stat status{};
  if (::fstat(parts_.region.fd.get(), &status) != 0)
    return fail(ErrorClass::other, "fstat: " + std::generic_category().message(errno));
  region_file_ = {
      .fd = parts_.region.fd.get(), .file = {status.st_dev, status.st_ino}, .known = {}, .libraries = {}};
  if (layout->hosts > 1) ISTHMUS_TRY(open_lines(*layout, given.launcher));
  parts_.memory.begin(parts_.world);
  Scheduler& scheduler = parts_.scheduler;
  scheduler.allow_moves(moves(*layout, given.box), parts_.world);
  for (std::uint32_t i = 0; i < scheduler.workers(); ++i)
    scheduler.worker(i).expect_ranks(parts_.region.view.block(parts_.first_slot + i).process_wakes);
  return {};
}

void Porter::begin() {
  region_file_.known = open_descriptors();
  region_file_.libraries = loaded_objects();
  if (lines_) region_file_.lines = &lines_->descriptors();
  thread_ = std::jthread([this](const std::stop_token& ends) { carry(ends); });
}

std::string Porter::why_tied(Rank& rank) const {
  const RankSpace space = space_of(rank.number);
  if (auto locals = own_thread_locals(space)) rank.locals = *locals;
  const std::lock_guard lock(looking_);
  return vrank::why_tied(space, region_file_);
}

// --- a rank leaves

std::vector<MoveStep> Porter::steps_of(const Rank& rank) const {
  const std::lock_guard lock(looking_);
  return vrank::steps_of(space_of(rank.number), parts_.file,
                         reinterpret_cast<std::uint64_t>(rank.fiber.context), rank.locals,
                         likeness_here(parts_.process_top));
}

/// Has the process that `rank` is for take it over; whether it has.
bool Porter::ask(Rank& rank, wire::Departure& departure) const {
  const HostWorker to = rank.fiber.destination;
  const std::vector<MoveStep> steps = steps_of(rank);
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

/// The same of a process of another host: what is to be done goes over a line, and the memory behind it.
bool Porter::ask_by_line(Rank& rank) const {
  const HostWorker to = rank.fiber.destination;
  const auto line = lines_->call_to_carry(rank.number, to.process);
  if (!line) {
    warn("rank " + std::to_string(rank.number) + " cannot go on on another host: " + line.error().text());
    return false;
  }
  const std::vector<MoveStep> steps = steps_of(rank);
  const Luggage luggage{.worker = to.worker, .steps = static_cast<std::uint32_t>(steps.size())};
  std::uint32_t answer = wire::Departure::failed;
  // Where the line breaks in between, the other has answered before, or has nothing.
  if (write_whole(line->get(), &luggage, sizeof luggage) &&
      write_whole(line->get(), steps.data(), steps.size() * sizeof(MoveStep)))
    static_cast<void>(write_memory(steps, line->get()));
  if (!read_whole(line->get(), &answer, sizeof answer) || answer != wire::Departure::taken) return false;
  // Here it is not any more, before it has a turn there.
  parts_.region.view.block(rank.slot).process.store(wire::RankBlock::elsewhere, std::memory_order_release);
  return true;
}

void Porter::depart(Rank& rank) noexcept {
  const std::uint32_t number = rank.number;
  std::fflush(stdout);
  {
    const std::lock_guard lock(mutex_);
    leaving_.insert(number);
  }
  parts_.scheduler.leaves(number);
  const bool is_far = lines_ && rank.fiber.destination.host != lines_->own_host();
  const bool is_gone = is_far ? ask_by_line(rank) : ask(rank, parts_.region.view.block(rank.slot).departure);
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

void Porter::tell_of_end(std::uint32_t rank, std::uint32_t ending) const noexcept {
  if (lines_) lines_->tell_of_end(rank, ending);
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
  while (auto arrival = lines_ ? lines_->take_arrival() : std::nullopt)
    arrive(std::move(*arrival));
}

void Porter::arrive(std::uint32_t slot) noexcept {
  wire::Departure& departure = parts_.region.view.block(slot).departure;
  const std::uint32_t worker = departure.worker;
  Result<> taken = take_in(slot);
  if (!taken)
    warn("rank " + std::to_string(slot) + " cannot go on in another process: " + taken.error().text());
  departure.state.store(taken ? wire::Departure::taken : wire::Departure::failed, std::memory_order_seq_cst);
  futex_wake(departure.state);
  if (taken) let_run(slot, worker);
}

Result<> Porter::take_in(std::uint32_t slot) {
  const wire::RankBlock& block = parts_.region.view.block(slot);
  const std::uint32_t count = block.departure.steps;
  if (count > most_steps) return fail(ErrorClass::intern, "it has more memory than can be");
  std::vector<MoveStep> steps(count);
  ISTHMUS_TRY(
      cma::read(block.place.pid, block.departure.address, steps.data(), steps.size() * sizeof(MoveStep)));
  MemoryOfProcess from(block.place.pid);
  return take_in(slot, steps, from);
}

void Porter::arrive(Lines::Arrival arrival) noexcept {
  const auto worker = take_in(arrival);
  if (!worker)
    warn("rank " + std::to_string(arrival.rank) +
         " cannot go on in a process of another host: " + worker.error().text());
  const std::uint32_t answer = worker ? wire::Departure::taken : wire::Departure::failed;
  if (!worker) {
    static_cast<void>(write_whole(arrival.line.get(), &answer, sizeof answer));
    return;
  }
  // Who does not hear it has ended, and with it the job.
  if (write_whole(arrival.line.get(), &answer, sizeof answer)) {
    arrival.line.reset();
    let_run(arrival.rank, *worker);
  }
}

Result<std::uint32_t> Porter::take_in(const Lines::Arrival& arrival) {
  Luggage luggage;
  if (!read_whole(arrival.line.get(), &luggage, sizeof luggage))
    return fail(ErrorClass::other, "the connection to the process that it leaves has broken");
  if (luggage.steps > most_steps || luggage.worker >= parts_.scheduler.workers() ||
      parts_.scheduler.is_here(arrival.rank))
    return fail(ErrorClass::intern, "what is said of it cannot be");
  std::vector<MoveStep> steps(luggage.steps);
  if (!read_whole(arrival.line.get(), steps.data(), steps.size() * sizeof(MoveStep)))
    return fail(ErrorClass::other, "the connection to the process that it leaves has broken");
  MemoryByLine from(arrival.line.get());
  ISTHMUS_TRY(take_in(arrival.rank, steps, from));
  return luggage.worker;
}

Result<> Porter::take_in(std::uint32_t number, std::span<const MoveStep> steps, LeftMemory& from) {
  const RankSpace space = space_of(number);
  ISTHMUS_TRY(check(steps, space));
  {
    std::unique_lock lock(mutex_);
    has_left_.wait(lock, [&] { return !leaving_.contains(number); });
  }
  auto pointer = parts_.threads.pointer_of(number, space.thread_end());
  if (!pointer) return std::unexpected(std::move(pointer).error());
  if (!copies_.contains(number)) {
    ISTHMUS_TRY(RankCopy::make_room(parts_.file, space.program()));
    copies_.insert(number);
  }
  ISTHMUS_TRY(take_over(steps, from, space, region_file_, likeness_here(parts_.process_top)));
  auto& rank = *static_cast<Rank*>(RankMemory::of(space)->rank);
  if (*pointer != rank.fiber.thread) {
    let_go(space);
    return fail(ErrorClass::other, "its thread-local storage would lie elsewhere");
  }
  parts_.process.take_in(rank);
  rank.copy.arrive(parts_.file);
  parts_.region.view.block(number).process.store(parts_.first_slot + 1, std::memory_order_release);
  return {};
}

void Porter::let_run(std::uint32_t number, std::uint32_t worker) noexcept {
  auto& rank = *static_cast<Rank*>(RankMemory::of(space_of(number))->rank);
  parts_.scheduler.comes(number, rank.fiber, worker);
}

bool Porter::have_all_ended() const noexcept {
  if (lines_) return lines_->have_all_ended();
  for (std::uint32_t slot = 0; slot < parts_.region.view.slots(); ++slot)
    if (parts_.region.view.block(slot).ending.load(std::memory_order_acquire) == 0) return false;
  return true;
}

}  // namespace isthmus::vrank
