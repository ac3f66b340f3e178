#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/error.hpp"

namespace isthmus {

/// Where others write to a rank that shares its process with further ones.
struct RankPost {
  std::span<const std::atomic<std::uint64_t>> doorbells;  ///< not all 0: somebody has written to it
  /// Tells peers with which worker of the process the rank sleeps from now on. Returns the word of that
  /// worker: who wakes one of its ranks counts it up, and wakes who sleeps on it. All ranks of the process
  /// give the same one for a worker. Empty, or null: nobody can wake the rank.
  std::function<std::atomic<std::uint32_t>*(std::uint32_t worker)> sleep_with;
};

/// A worker of a process.
struct HostWorker {
  std::uint32_t process = 0;  ///< by the first rank that it has been started with
  std::uint32_t worker = 0;   ///< of the process's
  std::uint32_t host = 0;     ///< that the process is on, counted from 0
  friend bool operator==(const HostWorker&, const HostWorker&) = default;
};

/// What a rank tells all others at a meeting of the job.
using MeetingWords = std::array<std::uint64_t, 4>;

/// How a process reaches those of other hosts where ranks may go on there (mpiexec --migratable --hosts): by
/// TCP. Called by its ranks, on any of its threads; what is kept here is the process's.
class HostLines {
 public:
  HostLines(const HostLines&) = delete;
  HostLines& operator=(const HostLines&) = delete;

  /// The process that `rank` is in, by the first rank that it was started with, as the last meeting has told.
  [[nodiscard]] virtual std::uint32_t process_of(std::uint32_t rank) const noexcept = 0;
  virtual void set_process(std::uint32_t rank, std::uint32_t process) noexcept = 0;
  /// Hosts are counted from 0.
  [[nodiscard]] virtual std::uint32_t host_of_process(std::uint32_t process) const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t own_host() const noexcept = 0;
  [[nodiscard]] bool is_on_this_host(std::uint32_t rank) const noexcept {
    return host_of_process(process_of(rank)) == own_host();
  }
  /// Ranks on this host.
  [[nodiscard]] virtual std::uint32_t ranks_here() const noexcept = 0;

  /// A socket, a stream that does not block, from `from` to `to`. Waits until the other process has answered,
  /// some seconds at most. `epoch`: how often ranks have moved so far, the same at both ends.
  virtual Result<int> call(std::uint32_t from, std::uint32_t to, std::uint32_t epoch) = 0;
  struct Caller {
    int socket;
    std::uint32_t from;
  };
  /// The other end of the oldest `call` to `rank` in `epoch`; nothing where there is none.
  virtual std::optional<Caller> take_call(std::uint32_t rank, std::uint32_t epoch) noexcept = 0;
  /// Has the rank woken, once, when `events`, a descriptor of epoll, becomes readable, or a call comes. False
  /// where a call is there already.
  virtual bool wake_when(std::uint32_t rank, int events) noexcept = 0;
  /// An epoll descriptor for `rank`.
  virtual Result<int> open_events(std::uint32_t rank) = 0;
  /// Closes what `call`, `take_call` and `open_events` have given.
  virtual void close(int descriptor) noexcept = 0;

  /// `rank` has said what it has to say at meeting `number`: `RankBlock::said`.
  virtual void came_to_meeting(std::uint32_t rank, std::uint32_t number) noexcept = 0;
  /// The same, where it has waited in vain: whoever else is expected on this host may be elsewhere.
  virtual void waits_at_meeting(std::uint32_t number) noexcept = 0;

 protected:
  HostLines() = default;
  ~HostLines() = default;
};

/// What a worker says to all of its ranks.
struct WorkerState {
  bool announces = false;    ///< who waits has to announce now that it may sleep
  std::uint32_t sleeps = 0;  ///< how often the worker has slept
};

/// The turns of a rank whose process has several. They are dealt to the workers of the process, one or more
/// threads. The ranks of a worker share it, and one that waits gives way to another (src/vrank). But for
/// `wake`, called by the rank alone, in its turn.
class RankTurns {
 public:
  RankTurns(const RankTurns&) = delete;
  RankTurns& operator=(const RankTurns&) = delete;

  /// Whether `rank` of the job is one of this process.
  [[nodiscard]] virtual bool is_here(std::uint32_t rank) const noexcept = 0;
  /// The rank has joined the job. `post` must outlive its turns.
  virtual void joined(RankPost post) = 0;
  /// The rank has looked in vain, and lets others have their turns. Returns at its next turn. `had_news`:
  /// something has happened since its last turn. `may_sleep`: it has announced, after `announces` has become
  /// true, that it may sleep: the worker may, once all of its ranks have, and have looked again.
  virtual void give_way(bool had_news, bool may_sleep) noexcept = 0;
  /// Something has happened that the rank waits for: it looks again, if it sleeps. From any thread.
  virtual void wake() noexcept = 0;

  /// Waits until all ranks of the process have joined the job or ended. Until then one worker runs all of
  /// them, one after the other; from then on each has its own. Returns at once where there is one worker.
  virtual void await_all() noexcept = 0;
  /// Which of the process's workers gives the rank its turns, and how many there are.
  [[nodiscard]] virtual std::uint32_t worker() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t workers() const noexcept = 0;
  /// Whether what `await_all` waits for has happened.
  [[nodiscard]] virtual bool can_move() const noexcept = 0;
  /// The rank goes on with worker `to`, one of `workers`, which gives it its turns from now on. Only where it
  /// can move.
  virtual void move_to(std::uint32_t to) noexcept = 0;
  /// How long its turns have been since the last call, in ticks of the processor's clock, without those in
  /// which it has only looked in vain. 0 where there is one worker.
  [[nodiscard]] virtual std::uint64_t take_work() noexcept = 0;

  // Where ranks may go on in other processes (mpiexec --migratable).

  /// All workers of all processes of the job, in order; empty where ranks stay in their processes.
  [[nodiscard]] virtual std::span<const HostWorker> host_workers() const noexcept = 0;
  /// Of the process where it is; null where the job is on one host.
  [[nodiscard]] virtual HostLines* lines() const noexcept = 0;
  /// The process that it is in.
  [[nodiscard]] virtual std::uint32_t process() const noexcept = 0;
  /// What keeps the rank in its process, as a sentence goes on ("it has a file open"); empty: nothing.
  [[nodiscard]] virtual std::string why_tied() = 0;
  /// Goes on with `to` in another process, where this returns; an error where it cannot, and the rank is
  /// where it was. What peers write to this rank's memory would be lost: nobody of the job is in MPI
  /// meanwhile.
  virtual Result<> leave_for(HostWorker to) = 0;
  /// In the process where it is: copies of the descriptors of the region and of its box, -1 for none.
  [[nodiscard]] virtual int region_descriptor() const noexcept = 0;
  [[nodiscard]] virtual int box_descriptor() const noexcept = 0;

  /// Whether who waits has to announce now that it may sleep.
  [[nodiscard]] bool announces() const noexcept { return state_->announces; }
  /// How often the worker has slept.
  [[nodiscard]] std::uint32_t sleeps() const noexcept { return state_->sleeps; }

 protected:
  RankTurns() = default;
  ~RankTurns() = default;

  static constexpr WorkerState none{};
  const WorkerState* state_ = &none;
};

}  // namespace isthmus
