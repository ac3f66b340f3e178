#include "hosts/head.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "node/run_job.hpp"
#include "stuck/text.hpp"
#include "talk/pack.hpp"

namespace isthmus::mpiexec {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int status_timeout = 124;  // as timeout(1)
constexpr std::size_t longest_hello = 4096;
constexpr std::size_t longest_frame = std::size_t{64} << 20;
constexpr std::size_t strangers_at_once = 64;
/// For a stranger to show that it has the key.
constexpr auto stranger_patience = seconds(10);
/// For all hosts to be reached.
constexpr auto connect_patience = seconds(60);
/// For all hosts to say what their ranks do.
constexpr auto look_patience = milliseconds(2000);
constexpr auto hint_patience = milliseconds(2000);
/// From asking agents to end their ranks, who get half a second or one, to having them killed.
constexpr auto grace = milliseconds(2000);
/// From there to leaving agents to themselves.
constexpr auto kill_patience = milliseconds(1500);
/// What an agent's last words may take longer than its launcher's end, which came another way.
constexpr auto last_words = milliseconds(1000);
/// For what a rank has died of that others have lost: longer than a host that has gone is given for its last
/// words.
constexpr auto cause_patience = milliseconds(1500);
/// What a launcher may outlive its agent.
constexpr auto launcher_patience = seconds(5);

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) return fmt::format("was killed by signal {}", WTERMSIG(wait_status));
  return fmt::format("ended with status {}", WEXITSTATUS(wait_status));
}

/// The folder that the ranks of `part` are traced in; empty: they are not.
std::string trace_folder(const Options& options, const Part& part) {
  const Environment own = Environment::inherited();
  std::string folder(own.get(trace_variable).value_or(""));
  for (const auto* exports : {&options.exports, &part.exports})
    for (const Export& entry : *exports)
      if (entry.name == trace_variable && entry.value) folder = *entry.value;
  return folder;
}

}  // namespace

void Head::set(Alarm alarm, Clock::duration from_now) {
  alarms_[static_cast<std::size_t>(alarm)] = Clock::now() + from_now;
}

int Head::run() {
  if (options_.timeout) set(Alarm::timeout, std::chrono::duration_cast<Clock::duration>(*options_.timeout));
  set(Alarm::connect, connect_patience);
  open_door(door_, output_);
  if (const auto error = start_agents()) fail(error->text, error->status);
  while (!given_up_ && !std::ranges::all_of(hosts_, &Host::over))
    step();
  if (!status_ && follower_) end_for(follower_->failure, follower_->host, false);
  clean_up();
  if (!status_) report_dead();
  return exit_status();
}

void Head::report_dead() {
  for (const std::string& line : lost_hosts_)
    output_.message(line);
  if (dead_.empty()) return;
  std::vector<Failure> failures;
  failures.reserve(dead_.size());
  for (const Dead& each : dead_)
    failures.push_back(each.failure);
  output_.message(describe_dead(failures, world_, [&](const Failure& failure) {
    const auto of =
        std::ranges::find_if(dead_, [&](const Dead& each) { return each.failure.rank == failure.rank; });
    return failure.describe(of->host);
  }));
}

int Head::milliseconds_to_wait() const {
  auto next = Clock::now() + seconds(1);  // silence is looked for that often
  if (const auto due = output_.deadline()) next = std::min(next, *due);
  if (const auto due = door_.deadline()) next = std::min(next, *due);
  for (const auto& alarm : alarms_)
    if (alarm) next = std::min(next, *alarm);
  const auto wait = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(wait, 0, 1000));
}

/// Waits for the next thing to happen and deals with it.
void Head::step() {
  std::vector<pollfd> waited_for{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  if (strangers_.size() < strangers_at_once)
    waited_for.push_back({.fd = listener_.socket.get(), .events = POLLIN, .revents = 0});
  for (const Stranger& stranger : strangers_)
    stranger.link.prepare(waited_for);
  for (const Host& host : hosts_) {
    if (host.link) host.link->prepare(waited_for);
    if (host.feed) host.feed->prepare(waited_for);
  }
  output_.prepare(waited_for);
  door_.prepare(waited_for);
  ::poll(waited_for.data(), waited_for.size(), milliseconds_to_wait());
  output_.react();
  door_.react();
  accept_links();
  for (Host& host : hosts_)
    attend(host);
  while (const auto signal = signals_.next())
    handle(*signal);
  for (std::size_t i = 0; i < alarm_count; ++i)
    if (alarms_[i] && *alarms_[i] <= Clock::now()) {
      alarms_[i].reset();
      ring(static_cast<Alarm>(i));
    }
}

void Head::accept_links() {
  while (strangers_.size() < strangers_at_once) {
    UniqueFd socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) break;
    strangers_.push_back({Link(std::move(socket), longest_hello, key_), Clock::now() + stranger_patience});
  }
  strangers_.remove_if([&](Stranger& stranger) {
    bool done = Clock::now() >= stranger.end;
    meet_stranger(stranger.link, done);
    return done;
  });
}

/// An agent, if it opens the connection and seals its first frame with the key; nobody else is told anything.
void Head::meet_stranger(Link& link, bool& done) {
  link.listen();
  const auto frame = link.next();
  const auto hello = frame && frame->kind == FrameKind::hello ? unpack_hello(frame->body) : std::nullopt;
  const bool known = hello && hello->host == link.host() && hello->host < hosts_.size();
  done = done || frame || link.closed();
  if (done && !known && !stranger_warned_) {
    stranger_warned_ = true;
    output_.message(
        fmt::format("warning: somebody without the job's key has connected to port {} and was turned away",
                    listener_.port));
  }
  if (!known || hosts_[hello->host].link) return;
  Host& host = hosts_[hello->host];
  if (hello->version != ISTHMUS_VERSION) {
    fail(host, fmt::format("there is mpiexec (Isthmus) {}, here {}: both must be of one version",
                           hello->version, ISTHMUS_VERSION));
    return;
  }
  host.link = std::make_unique<Link>(std::move(link));
  host.link->allow(longest_frame);
  host.link->send(FrameKind::order, pack(order_for(host)));
  if (status_) host.link->send(FrameKind::end, Packer().number(0).take());
  if (std::ranges::all_of(hosts_, [](const Host& h) { return h.link != nullptr; }))
    alarms_[static_cast<std::size_t>(Alarm::connect)].reset();
}

void Head::attend(Host& host) {
  if (host.feed) host.feed->react();
  if (host.link && !host.lost) {
    host.link->pump();
    while (const auto frame = host.link->next())
      take(host, *frame);
    if (!host.finished && (host.link->closed() || host.link->silent()) && !host.launcher_ended) {
      const bool closed = host.link->closed();
      if (!closed || Clock::now() >= host.closed_at + last_words)
        fail(host,
             closed ? "the mpiexec there has ended or the connection to it is lost"
                    : fmt::format("not heard of for {} s: the connection is lost", longest_silence.count()));
    } else {
      host.closed_at = Clock::now();
    }
  }
  if (host.finished && host.launcher_runs() && Clock::now() >= host.finished_at + launcher_patience)
    ::kill(host.launcher, SIGKILL);
  if (host.launcher_ended && !host.finished && Clock::now() >= *host.launcher_ended + last_words)
    explain_launcher(host);
}

void Head::take(Host& host, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::refusal: {
      Unpacker unpacker(frame.body);
      const auto status = static_cast<int>(unpacker.number());
      finish(host);
      fail(fmt::format("host {}: {}", host.name, unpacker.text()), status);
      return;
    }
    case FrameKind::barrier:
      if (const auto put = unpack_pairs(frame.body)) enter_barrier(host, *put);
      return;
    case FrameKind::failure:
      if (const auto failure = unpack_failure(frame.body)) rank_failed(host, *failure);
      return;
    case FrameKind::seen:
      take_seen(host, frame);
      return;
    case FrameKind::traced:
      take_traced(host, frame);
      return;
    case FrameKind::finished:
      finish(host);
      return;
    default:
      return;
  }
}

void Head::finish(Host& host) {
  host.finished = true;
  host.finished_at = Clock::now();
  host.link->part();
  release_barrier_if_all_here();  // its ranks may have died, and others wait for them
  end_look_if_all_answered();
}

void Head::enter_barrier(Host& host, const Pairs& put) {
  put_.insert(put.begin(), put.end());
  host.in_barrier = true;
  release_barrier_if_all_here();
}

void Head::release_barrier_if_all_here() {
  const auto is_here = [](const Host& host) { return host.in_barrier || host.lost || host.finished; };
  if (!std::ranges::all_of(hosts_, is_here) || std::ranges::none_of(hosts_, &Host::in_barrier)) return;
  for (Host& each : hosts_)
    each.in_barrier = false;
  tell_all(FrameKind::released, pack(std::exchange(put_, {})));
}

void Head::asked(stuck::Door&) {
  look_.for_door = true;
  look_at_ranks();
}

void Head::look_at_ranks() {
  if (std::exchange(look_.going_on, true)) return;
  ++look_.question;
  look_.seen.clear();
  for (Host& host : hosts_)
    host.was_seen = false;
  tell_all(FrameKind::look, Packer().number(look_.question).take());
  set(Alarm::look, look_patience);
  end_look_if_all_answered();
}

void Head::take_seen(Host& host, const Frame& frame) {
  Unpacker unpacker(frame.body);
  const std::uint32_t question = unpacker.number();
  const std::string body = unpacker.text();
  if (!look_.going_on || question != look_.question || host.was_seen) return;
  auto ranks = stuck::unpack(body, world_);
  // Where ranks change hosts, they are whoever is there.
  const auto is_of_host = [&](const stuck::RankState& each) {
    return !migration_.empty() || (each.rank >= host.first_rank && each.rank - host.first_rank < host.ranks);
  };
  if (!unpacker.complete() || !ranks || !std::ranges::all_of(*ranks, is_of_host)) return;
  host.was_seen = true;
  std::ranges::move(*ranks, std::back_inserter(look_.seen));
  end_look_if_all_answered();
}

void Head::end_look_if_all_answered() {
  const auto has_answered = [](const Host& host) {
    return host.was_seen || !host.link || host.lost || host.finished;
  };
  if (look_.going_on && std::ranges::all_of(hosts_, has_answered)) end_look();
}

void Head::end_look() {
  alarms_[static_cast<std::size_t>(Alarm::look)].reset();
  std::vector<bool> is_seen(world_, false);
  for (const stuck::RankState& each : look_.seen)
    is_seen[each.rank] = true;
  for (const Host& host : hosts_)
    for (std::uint32_t rank = host.first_rank; rank < host.first_rank + host.ranks; ++rank)
      if (!is_seen[rank])
        look_.seen.push_back(
            {.rank = rank,
             .where = host.finished ? stuck::RankState::Where::ended : stuck::RankState::Where::unknown,
             .host = host.name});
  std::ranges::sort(look_.seen, {}, &stuck::RankState::rank);
  const std::string report = stuck::report(look_.seen);
  look_.going_on = false;
  if (std::exchange(look_.for_door, false)) door_.answer(report);
  if (std::exchange(look_.ends_job, false))
    fail("the job has not ended in the time that --timeout gives it; ending it", status_timeout);
  if (std::exchange(look_.for_stderr, false)) output_.print_error(report);
}

void Head::take_traced(const Host& host, const Frame& frame) {
  Unpacker unpacker(frame.body);
  const std::uint32_t rank = unpacker.number();
  const std::string bytes = unpacker.text();
  if (!unpacker.complete() || rank < host.first_rank || rank - host.first_rank >= host.ranks) return;
  // A job that has failed waits for what its ranks have left, as long as it comes.
  if (alarms_[static_cast<std::size_t>(Alarm::give_up)]) set(Alarm::give_up, kill_patience);
  std::uint32_t position = rank;
  for (const Part& part : options_.parts) {
    const std::uint32_t ranks = part.ranks.value_or(1);
    if (position < ranks) {
      const std::string folder = trace_folder(options_, part);
      const std::string complaint = folder.empty() ? "" : traces_.add(folder, rank, bytes);
      if (!complaint.empty()) output_.message("warning: " + complaint);
      return;
    }
    position -= ranks;
  }
}

void Head::tell_all(FrameKind kind, const std::string& body) {
  for (const Host& host : hosts_)
    if (host.link && !host.lost && !host.finished) host.link->send(kind, body);
}

void Head::handle(int signal) {
  if (signal == SIGCHLD) {
    reap();
    return;
  }
  if (signal == SIGQUIT) {
    look_.for_stderr = true;
    look_at_ranks();
    return;
  }
  if (signal == SIGWINCH) return;  // a terminal's size means nothing elsewhere
  if (signal == SIGINT && forwarded_[SIGINT]) {
    kill_all();
    return;
  }
  if (signal == SIGINT) set(Alarm::hint, hint_patience);
  const bool all_met = std::ranges::all_of(hosts_, [](const Host& host) { return host.link != nullptr; });
  forwarded_[static_cast<std::size_t>(signal)] = true;
  if (!all_met && (signal == SIGINT || signal == SIGTERM || signal == SIGHUP)) {
    if (!status_) status_ = 128 + signal;
    kill_all();
    return;
  }
  tell_all(FrameKind::signal, Packer().number(static_cast<std::uint32_t>(signal)).take());
  if (signal == SIGTSTP) {
    ::raise(SIGSTOP);
    for (const Host& host : hosts_)
      if (host.link) host.link->forgive_silence();
  }
}

void Head::reap() {
  int wait_status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    if (pid == guard_.group()) guard_.reaped();
    const auto host = std::ranges::find(hosts_, pid, &Host::launcher);
    if (host == hosts_.end()) continue;
    host->launcher_status = wait_status;
    host->launcher_ended = Clock::now();
    if (!host->link) explain_launcher(*host);
  }
}

void Head::ring(Alarm alarm) {
  switch (alarm) {
    case Alarm::timeout:
      look_.for_stderr = look_.ends_job = true;
      look_at_ranks();
      return;
    case Alarm::look:
      end_look();
      return;
    case Alarm::cause:
      if (!status_) end_for(follower_->failure, follower_->host, false);
      return;
    case Alarm::connect:
      for (Host& host : hosts_)
        if (!host.link)
          fail(host, fmt::format("no word from the mpiexec there in {} s", connect_patience.count()));
      return;
    case Alarm::hint:
      output_.message("ranks still run; interrupt once more to kill them");
      return;
    case Alarm::kill:
      kill_all();
      return;
    case Alarm::give_up:
      given_up_ = true;
      return;
  }
}

void Head::fail(Host& host, const std::string& line) {
  host.lost = true;
  if (host.launcher_runs()) ::kill(host.launcher, SIGKILL);
  const bool all_met = std::ranges::all_of(hosts_, [](const Host& each) { return each.link != nullptr; });
  const bool any_left = std::ranges::any_of(hosts_, [](const Host& each) { return !each.lost; });
  if (!options_.outlive || status_ || !all_met || !any_left)
    return fail(fmt::format("host {}: {}", host.name, line), 1);
  lost_hosts_.push_back(fmt::format("host {}, with ranks {} to {}, was lost: {}", host.name, host.first_rank,
                                    host.first_rank + host.ranks - 1, line));
  for (std::uint32_t i = 0; i < host.ranks; ++i)
    tell_of_death(host, host.first_rank + i);
  release_barrier_if_all_here();
}

/// The other hosts' ranks may not be connected to it, so that no network tells them.
void Head::tell_of_death(const Host& of, std::uint32_t rank) {
  for (const Host& host : hosts_)
    if (&host != &of && host.link && !host.lost && !host.finished)
      host.link->send(FrameKind::died, Packer().number(rank).take());
}

void Head::fail(const std::string& line, int status, bool at_leisure) {
  if (status_) return;  // a consequence
  status_ = status;
  output_.hurry(true);
  tell_all(FrameKind::end, Packer().number(at_leisure).take());
  for (const Host& host : hosts_)
    if (!host.link && host.launcher_runs()) ::kill(host.launcher, SIGTERM);
  set(Alarm::kill, grace);
  output_.drain();
  if (!line.empty()) output_.message(line);
}

void Head::rank_failed(Host& host, const Failure& failure) {
  if (status_) return;
  const bool asked_for = failure.kind == Failure::Kind::signal && failure.value > 0 && failure.value < NSIG &&
                         forwarded_[static_cast<std::size_t>(failure.value)];
  if (options_.outlive && !asked_for && failure.kind != Failure::Kind::abort) {
    dead_.push_back({failure, host.name});
    if (!failure.finalized) tell_of_death(host, failure.rank);
    return;
  }
  const bool follows =
      failure.kind == Failure::Kind::abort && failure.value == static_cast<int>(ErrorClass::proc_aborted);
  if (follows) {
    if (!follower_) {
      follower_ = {failure, host.name};
      set(Alarm::cause, cause_patience);
    }
    return;
  }
  end_for(failure, host.name, asked_for);
}

void Head::end_for(const Failure& failure, const std::string& host, bool asked_for) {
  failure_ = failure;
  const bool more = world_ > 1 && failure.kind != Failure::Kind::abort;
  fail(asked_for ? "" : failure.describe(host) + (more ? "; ending the job" : ""), failure.exit_status(),
       failure.finalized);
}

/// The launcher has ended and the agent has not said goodbye.
void Head::explain_launcher(Host& host) {
  if (host.lost || host.finished) return;
  const int wait_status = *host.launcher_status;
  std::string line =
      fmt::format("the launcher {} {}", options_.launcher.empty() ? "ssh" : options_.launcher.front(),
                  describe_end(wait_status));
  if (host.link)
    line += " before the ranks did";
  else if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 127)
    line += fmt::format(": is Isthmus installed there as here, in {}?", installed_in());
  else
    line += " before mpiexec ran there";
  fail(host, line);
}

void Head::kill_all() {
  forwarded_[SIGKILL] = true;
  output_.hurry(true);
  tell_all(FrameKind::kill);
  for (const Host& host : hosts_)
    if ((!host.link || host.lost || host.finished) && host.launcher_runs()) ::kill(host.launcher, SIGKILL);
  set(Alarm::give_up, kill_patience);
}

/// The launchers have ended, or have been given up.
void Head::clean_up() {
  ::kill(-guard_.group(), SIGKILL);
  for (Host& host : hosts_)
    if (host.launcher_runs()) ::waitpid(host.launcher, nullptr, 0);
  output_.close_intake();
  alarms_.fill(std::nullopt);
  while (output_.has_pending()) {
    std::vector<pollfd> waited_for{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    output_.prepare(waited_for);
    ::poll(waited_for.data(), waited_for.size(), milliseconds_to_wait());
    output_.react();
    while (const auto signal = signals_.next())
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) return;  // nobody waits for the rest
  }
}

int Head::exit_status() const {
  const bool interrupted = forwarded_[SIGINT] && (!failure_ || failure_->kind == Failure::Kind::signal) &&
                           status_ && (!failure_ || failure_->value == SIGINT || failure_->value == SIGKILL);
  if (interrupted) signals_.die_of(SIGINT);
  if (status_) return *status_;
  if (!dead_.empty()) return dead_.front().failure.exit_status();
  if (!lost_hosts_.empty()) return 1;
  return given_up_ ? 1 : 0;
}

}  // namespace isthmus::mpiexec
