#include "ranks/ending.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>
#include <vector>

namespace isthmus::mpiexec {

int Failure::exit_status() const {
  switch (kind) {
    case Kind::signal:
      return 128 + value;
    case Kind::no_finalize:
      return 1;
    case Kind::exit_code:
    case Kind::abort:
      break;
  }
  const int status = value & 0xff;  // all that a parent process gets to see
  return status == 0 && value != 0 ? 1 : status;
}

std::string Failure::describe(const std::string& host) const {
  const std::string which = !all.empty() ? all
                            : ranks > 1  ? fmt::format("ranks {} to {}", rank, rank + ranks - 1)
                                         : fmt::format("rank {}", rank);
  const std::string who = fmt::format("{} (pid {}) on host {}", which, pid, host);
  switch (kind) {
    case Kind::signal:
      return fmt::format("{} killed by signal {} ({}{})", who, value, ::strsignal(value),
                         core_dumped ? ", core dumped" : "");
    case Kind::no_finalize:
      return fmt::format("{} exited without MPI_Finalize", who);
    case Kind::exit_code:
      return fmt::format("{} exited with code {}{}", who, value, finalized ? " after MPI_Finalize" : "");
    case Kind::abort:
      break;
  }
  return fmt::format("{} aborted the job with code {}", who,
                     value);  // MPI_Abort or a fatal error: it said which
}

std::string describe_dead(const std::vector<Failure>& dead, std::size_t ranks,
                          const std::function<std::string(const Failure&)>& describe) {
  constexpr std::size_t most_named = 16;
  std::string text = fmt::format("{} of {} ranks {} not lived to the end: ", dead.size(), ranks,
                                 dead.size() == 1 ? "has" : "have");
  for (std::size_t i = 0; i < dead.size() && i < most_named; ++i)
    text += (i > 0 ? "; " : "") + describe(dead[i]);
  if (dead.size() > most_named) text += "; and others";
  return text;
}

namespace {

/// Of the process that the rank is in, or was at the end; 0 where that is on another host.
pid_t pid_of(std::uint32_t slot, const LocalRanks& ranks, const wire::RegionView& region) {
  const std::uint32_t there = region.block(slot).process.load(std::memory_order_acquire);
  const std::uint32_t index = (there == 0 ? slot : there - 1) - ranks.first_slot;
  return index < ranks.pids.size() ? ranks.pids[index] : 0;
}

}  // namespace

std::optional<Failure> judge(std::uint32_t rank, int wait_status, const LocalRanks& ranks,
                             const wire::RegionView& region) {
  using Kind = Failure::Kind;
  const wire::RegionHeader& header = region.header();
  const std::uint32_t aborter = header.abort_state.load(std::memory_order_acquire) - 1;
  if (ranks.slot_of(aborter) < region.slots())
    return Failure{.kind = Kind::abort,
                   .rank = aborter,
                   .pid = pid_of(ranks.slot_of(aborter), ranks, region),
                   .value = header.abort_code.load()};
  const pid_t pid = pid_of(ranks.slot_of(rank), ranks, region);
  if (WIFSIGNALED(wait_status))
    return Failure{.kind = Kind::signal,
                   .rank = rank,
                   .pid = pid,
                   .value = WTERMSIG(wait_status),
                   .core_dumped = WCOREDUMP(wait_status) != 0};
  const wire::RosterState state = region.roster(rank).load(std::memory_order_acquire);
  if (WEXITSTATUS(wait_status) != 0)
    return Failure{.kind = Kind::exit_code,
                   .rank = rank,
                   .pid = pid,
                   .value = WEXITSTATUS(wait_status),
                   .finalized = state == wire::RosterState::finalized};
  if (state == wire::RosterState::joined)
    return Failure{.kind = Kind::no_finalize, .rank = rank, .pid = pid, .value = 0};
  return std::nullopt;
}

bool is_in(std::uint32_t slot, const ProcessRanks& process, const LocalRanks& ranks,
           const wire::RegionView& region) {
  const std::uint32_t there = region.block(slot).process.load(std::memory_order_acquire);
  const std::uint32_t first = ranks.slot_of(process.first);
  return there == 0 ? slot - first < process.count : there - 1 == first;
}

namespace {

std::vector<std::uint32_t> ranks_in(const ProcessRanks& process, const LocalRanks& ranks,
                                    const wire::RegionView& region) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t slot = 0; slot < region.slots(); ++slot)
    if (is_in(slot, process, ranks, region)) result.push_back(ranks.rank_in(slot));
  return result;
}

/// "ranks 1, 4 to 7"
std::string named(const std::vector<std::uint32_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    text += fmt::format("{}{}", text.empty() ? "ranks " : ", ", ranks[i]);
    if (last > i) text += fmt::format(" to {}", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace

std::optional<Failure> judge(const ProcessRanks& process, int wait_status, const LocalRanks& ranks,
                             const wire::RegionView& region) {
  if (process.count == 1) return judge(process.first, wait_status, ranks, region);
  // What each has ended with, as the process has written it; who has not ended itself has been ended with it.
  const bool was_killed = WIFSIGNALED(wait_status);
  for (std::uint32_t slot = 0; slot < region.slots(); ++slot) {
    if (!is_in(slot, process, ranks, region)) continue;
    const std::uint32_t rank = ranks.rank_in(slot);
    const std::uint32_t ending = region.block(slot).ending.load(std::memory_order_acquire);
    const bool is_it = (ending & (was_killed ? wire::Ending::was_killed : wire::Ending::has_ended)) != 0;
    if (!is_it) continue;
    // As waitpid has it of a process: the low byte is the signal, the next the exit status.
    const int own = was_killed ? wait_status : static_cast<int>(ending & 0xff) << 8;
    if (auto failure = judge(rank, own, ranks, region)) return failure;
  }
  const std::vector<std::uint32_t> here = ranks_in(process, ranks, region);
  if (here.empty()) {
    // Others might have gone there.
    const bool is_orderly = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
    if (is_orderly) return std::nullopt;
    return Failure{.kind = was_killed ? Failure::Kind::signal : Failure::Kind::exit_code,
                   .rank = process.first,
                   .pid = ranks.pids[process.first - ranks.first],
                   .value = was_killed ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status),
                   .all = fmt::format("the process that rank {} was started in", process.first)};
  }
  auto failure = judge(here.front(), wait_status, ranks, region);
  if (!failure || failure->kind == Failure::Kind::abort) return failure;
  failure->ranks = static_cast<std::uint32_t>(here.size());
  if (here.back() - here.front() + 1 != here.size()) failure->all = named(here);
  return failure;
}

}  // namespace isthmus::mpiexec
