#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hosts/addresses.hpp"
#include "node/order.hpp"
#include "node/trace_files.hpp"
#include "ranks/guard.hpp"
#include "ranks/program.hpp"
#include "ranks/signals.hpp"
#include "streams/feed.hpp"
#include "streams/output.hpp"
#include "stuck/door.hpp"
#include "stuck/rank_state.hpp"
#include "talk/frames.hpp"

namespace isthmus::mpiexec {

/// The mpiexec that the user has started, in a job of several hosts: starts an agent on each through the
/// launcher, tells it what to start, and watches over all of them until none is left.
class Head final : private stuck::Door::Asked {
 public:
  Head(const Options& options, const Signals& signals, Guard& guard);

  /// mpiexec's exit status.
  int run();

 private:
  struct Host {
    std::string name;
    std::uint32_t first_rank = 0, ranks = 0;
    std::unique_ptr<Feed> feed{};
    std::unique_ptr<Link> link{};
    pid_t launcher = -1;
    std::optional<int> launcher_status{};
    std::optional<Clock::time_point> launcher_ended{};
    Clock::time_point closed_at = Clock::now();  ///< last time that its link was not known to be closed
    bool in_barrier = false;
    bool finished = false;  ///< no rank is left there
    Clock::time_point finished_at{};
    bool lost = false;
    bool was_seen = false;  ///< in the look that is under way

    [[nodiscard]] bool launcher_runs() const { return launcher >= 0 && !launcher_ended; }
    /// Its last words may still be on their way when its launcher has ended.
    [[nodiscard]] bool over() const { return !launcher_runs() && (launcher < 0 || finished || lost); }
  };
  enum class Alarm : std::uint8_t { timeout, connect, hint, look, cause, kill, give_up };
  static constexpr std::size_t alarm_count = 7;

  std::optional<StartError> start_agents();
  /// `addresses`: where this host is to be found.
  std::expected<Program, StartError> command_for(std::size_t index,
                                                 const std::vector<std::string>& addresses) const;
  std::optional<StartError> start_agent(std::size_t index, const std::vector<std::string>& addresses);
  [[nodiscard]] Order order_for(const Host& host) const;

  void step();
  [[nodiscard]] int milliseconds_to_wait() const;
  void accept_links();
  void meet_stranger(Link& link, bool& done);
  void attend(Host& host);
  void take(Host& host, const Frame& frame);
  void finish(Host& host);
  void enter_barrier(Host& host, const Pairs& put);
  void release_barrier_if_all_here();
  void report_dead();
  void tell_of_death(const Host& of, std::uint32_t rank);
  void handle(int signal);
  void reap();
  void ring(Alarm alarm);
  void set(Alarm alarm, Clock::duration from_now);
  /// Asks all hosts what their ranks do; `take_seen` of the last answer, or the alarm, ends the look.
  void look_at_ranks();
  void take_seen(Host& host, const Frame& frame);
  void end_look_if_all_answered();
  void end_look();
  void take_traced(const Host& host, const Frame& frame);
  void asked(stuck::Door& door) override;
  void tell_all(FrameKind kind, const std::string& body = {});

  /// Ends the job, once, with that line and status.
  void fail(const std::string& line, int status, bool at_leisure = false);
  void fail(Host& host, const std::string& line);
  void rank_failed(Host& host, const Failure& failure);
  /// A rank of that host is why the job ends.
  void end_for(const Failure& failure, const std::string& host, bool asked_for);
  void explain_launcher(Host& host);
  void kill_all();
  void clean_up();
  [[nodiscard]] int exit_status() const;

  struct Stranger {
    Link link;
    Clock::time_point end;
  };

  const Options& options_;
  const Signals& signals_;
  Guard& guard_;
  Output output_;
  Listener listener_{};
  wire::JobKey key_{};
  std::string job_, mapping_;
  std::string migration_;  ///< as `Order` has it
  std::uint32_t world_ = 0;
  std::vector<Host> hosts_;
  std::list<Stranger> strangers_;
  bool stranger_warned_ = false;
  Pairs put_;
  std::optional<int> status_;  ///< that the job has failed with
  std::optional<Failure> failure_;
  struct Dead {
    Failure failure;
    std::string host;
  };
  std::vector<Dead> dead_;  ///< whom the others have outlived
  /// Has aborted because it has lost another rank, whose own end is the reason of the job's, but may be told
  /// of later.
  std::optional<Dead> follower_;
  std::vector<std::string> lost_hosts_;  ///< the same of whole hosts, a line each
  /// A look at all ranks that is under way.
  struct Look {
    std::uint32_t question = 0;  ///< its number
    bool going_on = false;
    bool for_stderr = false;
    bool for_door = false;
    bool ends_job = false;  ///< time is up
    std::vector<stuck::RankState> seen;
  };
  Look look_;
  stuck::Door door_{*this};
  TraceFolders traces_;
  bool given_up_ = false;
  std::array<bool, NSIG> forwarded_{};
  std::array<std::optional<Clock::time_point>, alarm_count> alarms_{};
};

/// The folder that this mpiexec is installed in.
std::string installed_in();

/// Runs a job on `options.hosts`.
int run_head(const Options& options);

}  // namespace isthmus::mpiexec
