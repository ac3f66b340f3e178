#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ranks/ending.hpp"
#include "ranks/guard.hpp"
#include "ranks/signals.hpp"
#include "streams/input.hpp"
#include "streams/output.hpp"
#include "stuck/rank_state.hpp"
#include "wire/region.hpp"

namespace isthmus::mpiexec {

/// Who hears of a failing rank in place of the user: the head of a job of several hosts.
class Overseer {
 public:
  virtual ~Overseer() = default;
  virtual void failed(const Failure& failure) = 0;
};

/// Watches over the running ranks until none is left: passes input, output and signals on, and ends the job
/// when a rank fails or time is up.
class Supervisor {
 public:
  struct Parts {
    const Signals& signals;
    Guard& guard;
    Input& input;
    Output& output;
    wire::RegionView region;
    std::string host;
    std::uint32_t first_rank;                           ///< of those here
    std::uint32_t first_slot;                           ///< its slot in the region
    Overseer* overseer;                                 ///< null: the user
    bool outlive;                                       ///< the others go on when a rank has died
    std::vector<Attendant*> attendants;                 ///< looked after in the same loop
    std::function<bool(std::uint32_t slot)> left_open;  ///< whether PMI has seen the rank come and not go
    std::function<bool(std::uint32_t slot)> has_left;   ///< whether PMI has seen it go
    std::string removal;  ///< a shell command for what ranks that were killed may have left; may be empty
    std::vector<pid_t> bystanders;  ///< children that mpiexec had before it began (a shell's that exec'd it)
  };
  explicit Supervisor(Parts parts) : parts_(std::move(parts)) {
    ranks_.first = parts_.first_rank;
    ranks_.first_slot = parts_.first_slot;
  }

  /// `count` ranks from `ranks started so far` on run as `pid`.
  void started(pid_t pid, std::uint32_t count) {
    running_.emplace(pid, ProcessRanks{ranks_.first + static_cast<std::uint32_t>(ranks_.pids.size()), count});
    ranks_.pids.insert(ranks_.pids.end(), count, pid);
  }
  void end_after(std::chrono::duration<double> timeout);

  /// mpiexec's exit status.
  int run();
  /// Passes a signal on to the ranks.
  void forward(int signal);
  /// Ends the job, as if a rank elsewhere had failed; after MPI_Finalize, `at_leisure`.
  void end(bool at_leisure);
  void kill_all();
  /// A rank of another host has died, and the others go on: those here hear of it.
  void died_elsewhere(std::uint32_t rank);
  /// What the ranks here do, seen without their help.
  [[nodiscard]] std::vector<stuck::RankState> look() const;
  /// The rank in `slot` has called MPI_Abort in a way that left no trace in the region.
  void abort(std::uint32_t slot, int code);
  /// Kills what runs and waits for it, without a word: the job could not be started whole.
  void abandon();

 private:
  /// Deadlines in the order in which a failing job meets them.
  enum class Alarm : std::uint8_t { timeout, hint, terminate, kill, give_up };
  static constexpr std::size_t alarm_count = 5;

  void step();
  [[nodiscard]] int milliseconds_to_wait() const;
  void handle(int signal);
  void suspend();
  void reap();
  void process_ended(const ProcessRanks& process, int wait_status);
  void ring(Alarm alarm);
  void set(Alarm alarm, Clock::duration from_now);
  void fail(const Failure& failure);
  /// Whether the others go on without that rank.
  [[nodiscard]] bool can_outlive(const Failure& failure) const;
  void bury(const Failure& failure);
  void tell_of_death() const;
  void hurry();
  void terminate();
  void send(int signal) const;
  void clean_up();
  void hand_out_rest();
  void remove_leftovers();
  [[nodiscard]] std::vector<pid_t> children() const;
  [[nodiscard]] bool failed() const { return failure_ || timed_out_ || given_up_ || ended_; }
  [[nodiscard]] int exit_status() const;

  Parts parts_;
  LocalRanks ranks_;                                 ///< stay when their processes have ended
  std::unordered_map<pid_t, ProcessRanks> running_;  ///< to their ranks
  std::array<bool, NSIG> forwarded_{};
  std::optional<Failure> failure_;
  std::vector<Failure> dead_;  ///< whom the others have outlived
  bool timed_out_ = false;
  bool given_up_ = false;
  bool ended_ = false;  ///< not by a rank: what becomes of the ranks is a consequence
  std::array<std::optional<Clock::time_point>, alarm_count> alarms_{};
};

}  // namespace isthmus::mpiexec
