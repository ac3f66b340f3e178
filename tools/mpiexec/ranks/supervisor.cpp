#include "ranks/supervisor.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <numeric>

#include "stuck/look.hpp"
#include "stuck/text.hpp"

namespace isthmus::mpiexec {
namespace {

using std::chrono::milliseconds;

constexpr int timed_out_status = 124;  // as timeout(1)
/// From SIGTERM to SIGKILL.
constexpr auto term_grace = milliseconds(500);
/// What the other ranks get to end by themselves when one fails after MPI_Finalize: they need it no more, and
/// may still be printing results.
constexpr auto grace_after_finalize = milliseconds(1000);
/// From the first Ctrl-C to the advice that a second one kills.
constexpr auto reminder_patience = milliseconds(2000);
/// From SIGKILL to giving up on processes that the kernel does not let go of (uninterruptible sleep).
constexpr auto kernel_patience = milliseconds(5000);
/// For an engine to remove its containers; half a second each, one after the other.
constexpr auto removal_patience = milliseconds(60000);

}  // namespace

void Supervisor::set(Alarm alarm, Clock::duration from_now) {
  alarms_[static_cast<std::size_t>(alarm)] = Clock::now() + from_now;
}

void Supervisor::end_after(std::chrono::duration<double> timeout) {
  set(Alarm::timeout, std::chrono::duration_cast<Clock::duration>(timeout));
}

/// An agent leaves it to the head to say what is lost.
void Supervisor::hurry() {
  parts_.output.hurry(parts_.overseer == nullptr);
}

void Supervisor::send(int signal) const {
  ::kill(-parts_.guard.group(), signal);
}

int Supervisor::run() {
  while (!running_.empty() && !given_up_)
    step();
  clean_up();
  if (!parts_.overseer && !dead_.empty())
    parts_.output.message(describe_dead(
        dead_, ranks_.pids.size(), [&](const Failure& failure) { return failure.describe(parts_.host); }));
  return exit_status();
}

void Supervisor::abandon() {
  ended_ = true;
  kill_all();
  while (!running_.empty() && !given_up_)
    step();
  clean_up();
}

int Supervisor::milliseconds_to_wait() const {
  std::optional<Clock::time_point> next = parts_.output.deadline();
  for (const Attendant* attendant : parts_.attendants)
    if (const auto due = attendant->deadline(); due && (!next || *due < *next)) next = due;
  for (const auto& alarm : alarms_)
    if (alarm && (!next || *alarm < *next)) next = alarm;
  if (!next) return -1;
  const auto wait = std::chrono::ceil<milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(wait, 0, 3'600'000));
}

/// Waits for the next thing to happen and deals with it.
void Supervisor::step() {
  std::vector<pollfd> waited_for{{.fd = parts_.signals.fd(), .events = POLLIN, .revents = 0}};
  parts_.output.prepare(waited_for);
  parts_.input.prepare(waited_for);
  for (const Attendant* attendant : parts_.attendants)
    attendant->prepare(waited_for);
  ::poll(waited_for.data(), waited_for.size(), milliseconds_to_wait());
  parts_.output.react();
  parts_.input.react();
  for (Attendant* attendant : parts_.attendants)
    attendant->react();
  while (const auto signal = parts_.signals.next())
    handle(*signal);
  for (std::size_t i = 0; i < alarm_count; ++i)
    if (alarms_[i] && *alarms_[i] <= Clock::now()) {
      alarms_[i].reset();
      ring(static_cast<Alarm>(i));
    }
}

void Supervisor::handle(int signal) {
  switch (signal) {
    case SIGCHLD:
      reap();
      return;
    case SIGTSTP:
      suspend();
      return;
    case SIGQUIT:
      parts_.output.drain();
      parts_.output.print_error(stuck::report(look()));
      return;
    case SIGINT:
      if (forwarded_[SIGINT]) {
        kill_all();
        return;
      }
      set(Alarm::hint, reminder_patience);
      break;
    default:
      break;
  }
  forward(signal);
}

void Supervisor::forward(int signal) {
  forwarded_[static_cast<std::size_t>(signal)] = true;
  send(signal);
  if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) send(SIGCONT);  // stopped ranks too
}

/// Ctrl-Z: the ranks stop, then mpiexec, whose SIGCONT is passed on like any other signal.
void Supervisor::suspend() {
  send(SIGTSTP);
  ::raise(SIGSTOP);
}

void Supervisor::reap() {
  int wait_status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    if (pid == parts_.guard.group()) parts_.guard.reaped();
    const auto found = running_.find(pid);
    if (found == running_.end()) continue;  // an orphan of a rank
    const ProcessRanks process = found->second;
    running_.erase(found);
    process_ended(process, wait_status);
  }
}

void Supervisor::process_ended(const ProcessRanks& process, int wait_status) {
  if (failure_ || timed_out_ || ended_) return;  // a consequence
  auto failure = judge(process, wait_status, ranks_, parts_.region);
  // A rank that found peers elsewhere, or is another MPI's, is not in our region's roster.
  if (failure && failure->kind == Failure::Kind::exit_code)
    failure->finalized = failure->finalized || parts_.has_left(failure->rank - ranks_.first);
  const std::uint32_t first = process.first - ranks_.first;
  for (std::uint32_t slot = first; slot < first + process.count && !failure; ++slot)
    if (parts_.left_open(slot))
      failure = {.kind = Failure::Kind::no_finalize,
                 .rank = ranks_.first + slot,
                 .pid = ranks_.pids[slot],
                 .value = 0};
  if (!failure) return;
  if (can_outlive(*failure))
    bury(*failure);
  else
    fail(*failure);
}

bool Supervisor::can_outlive(const Failure& failure) const {
  const bool asked_for =
      failure.kind == Failure::Kind::signal && forwarded_[static_cast<std::size_t>(failure.value)];
  return parts_.outlive && !asked_for && failure.kind != Failure::Kind::abort;
}

void Supervisor::bury(const Failure& failure) {
  dead_.push_back(failure);
  if (parts_.overseer) parts_.overseer->failed(failure);
  if (failure.finalized) return;
  // All ranks of a process have died with it.
  for (std::size_t slot = 0; slot < ranks_.pids.size(); ++slot)
    if (ranks_.pids[slot] == failure.pid)
      parts_.region.block(static_cast<std::uint32_t>(slot))
          .life.store(wire::Life::ended, std::memory_order_release);
  tell_of_death();
}

void Supervisor::died_elsewhere(std::uint32_t rank) {
  const wire::RegionView& region = parts_.region;
  if (rank >= region.world() || rank - ranks_.first < region.slots()) return;
  region.roster(rank).store(wire::RosterState::dead, std::memory_order_release);
  tell_of_death();
}

/// The ranks here look when their count of connections has changed.
void Supervisor::tell_of_death() const {
  const wire::RegionView& region = parts_.region;
  region.header().deaths.fetch_add(1, std::memory_order_acq_rel);
  for (std::uint32_t slot = 0; slot < region.slots(); ++slot) {
    wire::RankBlock& block = region.block(slot);
    block.connections.fetch_add(1, std::memory_order_seq_cst);
    region.wake(slot);
  }
}

std::vector<stuck::RankState> Supervisor::look() const {
  std::vector<pid_t> children(parts_.region.slots(), 0);
  for (const auto& [pid, process] : running_)
    for (std::uint32_t slot = 0; slot < children.size(); ++slot)
      if (is_in(slot, process, ranks_, parts_.region)) children[slot] = pid;
  return stuck::look({.region = parts_.region,
                      .first_rank = ranks_.rank_in(0),
                      .children = std::move(children),
                      .is_in = parts_.left_open,
                      .host = parts_.host});
}

void Supervisor::abort(std::uint32_t slot, int code) {
  if (failure_ || timed_out_ || ended_ || slot >= ranks_.pids.size()) return;
  fail({.kind = Failure::Kind::abort, .rank = ranks_.first + slot, .pid = ranks_.pids[slot], .value = code});
}

void Supervisor::end(bool at_leisure) {
  ended_ = true;
  hurry();
  if (at_leisure)
    set(Alarm::terminate, grace_after_finalize);
  else
    terminate();
}

void Supervisor::fail(const Failure& failure) {
  failure_ = failure;
  const bool last = running_.empty();
  const bool asked_for =
      failure_->kind == Failure::Kind::signal && forwarded_[static_cast<std::size_t>(failure_->value)];
  hurry();
  if (!last && !failure_->finalized) terminate();  // before anything that their output may hold up
  if (!last && failure_->finalized) set(Alarm::terminate, grace_after_finalize);
  if (parts_.overseer) {
    parts_.overseer->failed(*failure_);
  } else if (!asked_for) {
    parts_.output.drain();
    parts_.output.message(failure_->describe(parts_.host) +
                          (last || failure_->kind == Failure::Kind::abort ? "" : "; ending the job"));
  }
}

void Supervisor::ring(Alarm alarm) {
  switch (alarm) {
    case Alarm::timeout: {
      // Before the ranks are told to end: they would be somewhere else then.
      const std::string report = stuck::report(look());
      timed_out_ = true;
      hurry();
      terminate();
      parts_.output.drain();
      parts_.output.message("the job has not ended in the time that --timeout gives it; ending it");
      parts_.output.print_error(report);
      return;
    }
    case Alarm::hint:
      parts_.output.message(fmt::format(
          "{} of {} ranks still run; interrupt once more to kill them",
          std::accumulate(running_.begin(), running_.end(), std::uint32_t{0},
                          [](std::uint32_t sum, const auto& each) { return sum + each.second.count; }),
          ranks_.pids.size()));
      return;
    case Alarm::terminate:
      terminate();
      return;
    case Alarm::kill:
      kill_all();
      return;
    case Alarm::give_up:
      parts_.output.message("some ranks do not die (the kernel holds them); leaving them behind");
      given_up_ = true;
      return;
  }
}

void Supervisor::terminate() {
  send(SIGTERM);
  send(SIGCONT);
  set(Alarm::kill, term_grace);
}

void Supervisor::kill_all() {
  forwarded_[SIGKILL] = true;
  hurry();
  send(SIGKILL);
  set(Alarm::give_up, kernel_patience);
}

/// Children of mpiexec that came with the job: orphans of ranks, which it inherits as their subreaper.
std::vector<pid_t> Supervisor::children() const {
  std::ifstream file("/proc/thread-self/children");
  std::vector<pid_t> result;
  for (pid_t pid = 0; file >> pid;)
    if (pid != parts_.guard.group() &&
        std::find(parts_.bystanders.begin(), parts_.bystanders.end(), pid) == parts_.bystanders.end())
      result.push_back(pid);
  return result;
}

/// The ranks have ended; ends what they have left behind. After an orderly end, what is still in the job's
/// process group, and not what has made a session of its own as daemons do; after a failure, everything. Then
/// hands out the last output.
void Supervisor::clean_up() {
  const auto reap_until = [&](Clock::time_point end, auto done) {
    while (!done() && Clock::now() < end) {
      ::poll(nullptr, 0, 2);
      reap();
    }
  };
  const auto group_is_empty = [&] {
    const auto left = children();
    return std::none_of(left.begin(), left.end(),
                        [&](pid_t pid) { return ::getpgid(pid) == parts_.guard.group(); });
  };
  if (!failed() && !group_is_empty()) {
    send(SIGTERM);
    reap_until(Clock::now() + term_grace, group_is_empty);
  }
  send(SIGKILL);  // children of living leftovers too, and the guard
  if (failed()) remove_leftovers();
  if (failed())
    reap_until(Clock::now() + kernel_patience, [&] {
      const auto left = children();
      for (const pid_t pid : left)
        ::kill(pid, SIGKILL);
      return left.empty();
    });
  hand_out_rest();
}

/// The head of a wider job, which may be as slow as the reader, still hears of us.
void Supervisor::hand_out_rest() {
  parts_.output.close_intake();
  while (parts_.output.has_pending()) {
    std::vector<pollfd> waited_for{{.fd = parts_.signals.fd(), .events = POLLIN, .revents = 0}};
    parts_.output.prepare(waited_for);
    for (const Attendant* attendant : parts_.attendants)
      attendant->prepare(waited_for);
    alarms_.fill(std::nullopt);  // there is nobody left whom they concern
    ::poll(waited_for.data(), waited_for.size(), milliseconds_to_wait());
    parts_.output.react();
    for (Attendant* attendant : parts_.attendants)
      attendant->react();
    while (const auto signal = parts_.signals.next())
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) return;  // nobody waits for the rest
  }
}

/// Containers outlive the client that has started them. Before their processes are killed: the engine waits
/// in vain for one that it does not see end.
void Supervisor::remove_leftovers() {
  if (parts_.removal.empty()) return;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    ::sigprocmask(SIG_SETMASK, &parts_.signals.inherited().signal_mask, nullptr);
    ::execl("/bin/sh", "sh", "-c", parts_.removal.c_str(), nullptr);
    ::_exit(127);
  }
  const auto end = Clock::now() + removal_patience;
  while (pid > 0 && ::waitpid(pid, nullptr, WNOHANG) == 0) {
    if (Clock::now() >= end) {
      ::kill(-pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      break;
    }
    ::poll(nullptr, 0, 2);
  }
}

int Supervisor::exit_status() const {
  if (timed_out_) return timed_out_status;
  if (!failure_ && !dead_.empty()) return dead_.front().exit_status();
  if (!failure_) return given_up_ ? 1 : 0;
  const bool interrupted = forwarded_[SIGINT] && failure_->kind == Failure::Kind::signal;
  if (interrupted && (failure_->value == SIGINT || failure_->value == SIGKILL)) parts_.signals.die_of(SIGINT);
  return failure_->exit_status();
}

}  // namespace isthmus::mpiexec
