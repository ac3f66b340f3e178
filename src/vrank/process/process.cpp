#include "vrank/process/process.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "base/log.hpp"
#include "base/whole_number.hpp"
#include "vrank/process/signals.hpp"
#include "vrank/process/stand_ins.hpp"
#include "vrank/process/status.hpp"
#include "vrank/rank_copy.hpp"
#include "vrank/rank_space.hpp"
#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::size_t usual_stack = std::size_t{8} << 20;
/// Scripts like to use 3 to 9, bash 10 and 63 and their neighbours.
constexpr int lowest_fd = 40;

/// The descriptor that `variable` names; nothing where it names none.
std::optional<int> descriptor(const Environment& environment, const char* variable) {
  const auto text = environment.get(variable);
  const auto fd = text ? whole_number<std::uint32_t>(*text) : std::nullopt;
  return fd ? std::optional(static_cast<int>(*fd)) : std::nullopt;
}

int copy_of(int fd) noexcept {
  return ::fcntl(fd, F_DUPFD_CLOEXEC, lowest_fd);
}

}  // namespace

// --- what the process is told

std::optional<Process::Numbers> Process::numbers_of(const Environment& environment) {
  const auto number = [&](const char* name) {
    return whole_number<std::uint32_t>(environment.get(name).value_or(""));
  };
  const auto own = number(launcher_variable::rank), slot = number(launcher_variable::local_rank),
             world = number(launcher_variable::world_size);
  if (!own || !slot || !world || *own >= *world) return std::nullopt;
  return Numbers{*own, *slot, *world};
}

Result<> Process::hand_on(Environment& environment, const char* variable) {
  const auto fd = descriptor(environment, variable);
  if (!fd) return {};
  const int own = copy_of(*fd);
  if (own < 0) return fail(ErrorClass::other, std::string(variable) + " names no open descriptor");
  environment.set(std::string(variable) + '=' + std::to_string(own));
  return {};
}

std::size_t Process::stack_bytes(const Settings& settings) {
  if (settings.rank_stack != 0) return settings.rank_stack;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return usual_stack;
  return std::max<std::size_t>(limit.rlim_cur, std::size_t{64} << 10);
}

Result<> Process::open_region(const Environment& environment) {
  const auto fd = descriptor(environment, launcher_variable::region);
  if (!fd) return {};
  auto opened = launch::open_region(copy_of(*fd));
  if (!opened) return std::unexpected(std::move(opened).error());
  region_ = std::move(*opened);
  return {};
}

// --- the ranks are made

Result<> Process::prepare(std::uint32_t workers) {
  auto settings = Settings::read(environ);
  if (!settings) return std::unexpected(std::move(settings).error());
  const std::size_t stack = stack_bytes(*settings);
  for (Environment& environment : environments_) {
    const auto numbers = numbers_of(environment);
    if (!numbers || (!ranks_.empty() && numbers->own != ranks_.front()->number + ranks_.size()))
      return fail(ErrorClass::arg, std::string(launcher_variable::virtual_ranks) + " makes no sense");
    if (ranks_.empty()) ISTHMUS_TRY(open(environment, *numbers, workers));
    ISTHMUS_TRY(hand_on(environment, launcher_variable::region));
    ISTHMUS_TRY(hand_on(environment, launcher_variable::box));
    ISTHMUS_TRY(add_rank(std::move(environment), *numbers, stack));
  }
  watch_signals();
  give_signals_a_stack();
  // What runs outside of turns is of the first rank, as in a process of one.
  if (!ranks_.empty() && !memory_) edge_.make_current(ranks_.front()->fiber.runtime);
  ISTHMUS_TRY(start_workers());
  if (porter_) porter_->begin();
  return {};
}

/// What all ranks share, as the first of them is told it.
Result<> Process::open(const Environment& environment, const Numbers& first, std::uint32_t workers) {
  const auto count = static_cast<std::uint32_t>(environments_.size());
  ranks_.reserve(count);
  world_ = first.world;
  scheduler_.emplace(first.own, count, std::max(workers, std::uint32_t{1}), edge_);
  ISTHMUS_TRY(open_region(environment));
  if (!memory_) return {};
  if (!region_) return fail(ErrorClass::arg, std::string(launcher_variable::region) + " makes no sense");
  porter_.emplace(Porter::Parts{.process = *this,
                                .file = file_,
                                .memory = *memory_,
                                .region = *region_,
                                .scheduler = *scheduler_,
                                .threads = threads_,
                                .world = world_,
                                .first_slot = first.own,
                                .process_top = process_top_});
  const auto box = descriptor(environment, launcher_variable::box);
  LauncherDescriptors launcher{.first_rank = first.own, .world = first.world, .descriptors = {}};
  for (Environment& each : environments_) {
    if (const auto fd = descriptor(each, "PMI_FD")) launcher.descriptors.push_back(*fd);
    each.remove("PMI_FD");
  }
  return porter_->prepare({.launcher = std::move(launcher), .box = box ? copy_of(*box) : -1});
}

Result<> Process::add_rank(Environment environment, const Numbers& numbers, std::size_t stack) {
  const RankSpace space(numbers.own, world_);
  // Its guard, and room beside it.
  if (stack > space.part_bytes() / 2)
    return fail(ErrorClass::arg, "ISTHMUS_RANK_STACK: a stack of " + std::to_string(stack >> 20) +
                                     " MiB is too large for a rank of " + std::to_string(numbers.world) +
                                     "; it may have " + std::to_string(space.part_bytes() >> 21));
  auto pointer = threads_.pointer_of(numbers.own, space.thread_end());
  if (!pointer) return std::unexpected(std::move(pointer).error());
  if (!memory_) return make_rank(environment, numbers, stack, *pointer);
  RankMemory* const memory = memory_->open(numbers.own);
  if (!memory) return fail(ErrorClass::no_mem, "the heap of a rank: its addresses are taken");
  porter_->has_copy(numbers.own);
  // By the thread pointer, what is allocated now is the rank's.
  const std::uintptr_t own = RankThread::own_pointer();
  RankThread::set_pointer(*pointer);
  Result<> made = make_rank(environment, numbers, stack, *pointer);
  if (made) memory->rank = ranks_.back();
  RankThread::set_pointer(own);
  return made;
}

/// All that it allocates is the rank's, but the list of ranks, which has its room.
[[gnu::noinline]] Result<> Process::make_rank(Environment& environment, const Numbers& numbers,
                                              std::size_t stack, std::uintptr_t thread) {
  const RankSpace space(numbers.own, world_);
  auto* const rank = new Rank;
  rank->process = this;
  rank->number = numbers.own;
  // Where ranks may go to other hosts, each has a slot in the regions of all.
  rank->slot = memory_ ? numbers.own : numbers.slot;
  rank->environment.emplace(environment);
  rank->words = words_;
  for (std::string& word : rank->words)
    rank->arguments.push_back(word.data());
  rank->arguments.push_back(nullptr);
  auto made = RankStack::make(space.stack_end(), stack);
  if (!made) return std::unexpected(std::move(made).error());
  rank->stack = std::move(*made);
  rank->program_at = space.program();
  rank->fiber.owner = rank;
  rank->fiber.thread = thread;
  rank->fiber.environment = rank->environment->pointers();
  rank->fiber.runtime = edge_.make(rank->fiber);
  scheduler_->add(rank->fiber, rank->stack, &Process::begin, rank);
  ranks_.push_back(rank);
  return {};
}

Result<> Process::start_workers() {
  const std::uint32_t count = scheduler_ ? scheduler_->workers() : 1;
  try {
    for (std::uint32_t i = 1; i < count; ++i)
      workers_.emplace_back([this, i] {
        give_signals_a_stack();
        give_turns(scheduler_->worker(i));
      });
    return {};
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, std::string("a thread cannot be made: ") + error.what());
  }
}

// --- turns

Rank* Process::current() noexcept {
  const Fiber* const fiber = Scheduler::current();
  return fiber ? static_cast<Rank*>(fiber->owner) : nullptr;
}

char**& Process::environment_of(Rank& rank) const noexcept {
  return scheduler_->switches_environment() ? environ : rank.fiber.environment;
}

void Process::take_in(Rank& rank) noexcept {
  rank.process = this;
  // It may have parsed options elsewhere since it has been here.
  const Rank* of = &rank;
  parser_.compare_exchange_strong(of, nullptr);
}

void Process::begin(void* argument) {
  Rank& rank = *static_cast<Rank*>(argument);
  rank.process->load_and_run(rank);
}

void Process::load_and_run(Rank& rank) {
  Result<> loaded = memory_ ? rank.copy.load_quietly(file_, rank.program_at, stand_ins(), *memory_->current())
                            : rank.copy.load(file_, rank.program_at, stand_ins());
  if (!loaded) {
    warn(words_.front() + " cannot be loaded for rank " + std::to_string(rank.number) + ": " +
         loaded.error().text());
    std::fflush(nullptr);
    ::_exit(status_cannot_run);
  }
  rank.shown_environment = environ;
  if (memory_) rank.copy.run_beginnings(static_cast<int>(rank.words.size()), rank.arguments.data(), environ);
  end_rank(
      rank.copy.run(static_cast<int>(rank.words.size()), rank.arguments.data(), environ, !workers_.empty()),
      true);
}

void Process::give_turns(Worker& worker) {
  while (const Fiber* const fiber = worker.run()) {
    Rank& rank = *static_cast<Rank*>(fiber->owner);
    if (fiber->leaves) {
      porter_->depart(rank);
      continue;
    }
    // The others may wait for it for ever, as for a process that ends so.
    if (!finish(rank)) {
      std::fflush(nullptr);
      ::_exit(rank.status);
    }
  }
}

int Process::run() {
  give_turns(scheduler_->worker(0));
  workers_.clear();
  if (porter_) porter_->stop();
  ends_itself_ = true;
  return failed_status_;
}

// --- endings

void Process::end_rank(int status, bool runs_endings) noexcept {
  Rank& rank = *current();
  // What atexit has been given may call exit.
  if (!std::exchange(rank.is_ending, true) && runs_endings) rank.copy.run_endings();
  rank.status = status & 0xff;
  Scheduler::end();
}

void Process::note(const Rank& rank, std::uint32_t ending) noexcept {
  if (!region_) return;
  if (rank.slot < region_->view.slots())
    region_->view.block(rank.slot).ending.store(ending, std::memory_order_release);
}

/// False where the process has to end now.
bool Process::finish(Rank& rank) {
  // What mpiexec would end the job for, were it a process.
  const bool fails =
      edge_.is_open(rank.fiber.runtime) || (rank.status != 0 && !edge_.has_finalized(rank.fiber.runtime));
  threads_.end(rank.number);
  const std::lock_guard lock(ending_);
  if (rank.status != 0 && (failed_rank_ < 0 || rank.number < failed_rank_)) {
    failed_rank_ = rank.number;
    failed_status_ = rank.status;
  }
  note(rank, wire::Ending::has_ended | static_cast<std::uint32_t>(rank.status));
  std::fflush(stdout);
  if (porter_)
    porter_->tell_of_end(rank.number, wire::Ending::has_ended | static_cast<std::uint32_t>(rank.status));
  return !fails;
}

void Process::exit_from_library(int status) noexcept {
  Rank* const rank = current();
  if (ends_itself_ || !is_own() || !rank) return;
  note(*rank, wire::Ending::has_ended | (static_cast<std::uint32_t>(status) & 0xff));
  std::uint32_t here = 0;
  for (std::uint32_t each = 0; each < world_; ++each)
    here += scheduler_->is_here(each) ? 1 : 0;
  if (here > 1)
    warn("rank " + std::to_string(rank->number) +
         " has ended its process by exit, called in a library: with it end all " + std::to_string(here) +
         " ranks of the process");
}

}  // namespace isthmus::vrank
