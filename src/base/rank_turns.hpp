#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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

/// A worker of a process of the host.
struct HostWorker {
  std::uint32_t process = 0;  ///< by the slot of the first rank that it has been started with
  std::uint32_t worker = 0;   ///< of the process's
  friend bool operator==(const HostWorker&, const HostWorker&) = default;
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

  // Where ranks may go on in other processes of the host (mpiexec --migratable).

  /// All workers of all processes of the host, in order; empty where ranks stay in their processes.
  [[nodiscard]] virtual std::span<const HostWorker> host_workers() const noexcept = 0;
  /// The process that it is in.
  [[nodiscard]] virtual std::uint32_t process() const noexcept = 0;
  /// What keeps the rank in its process, as a sentence goes on ("it has a file open"); empty: nothing.
  [[nodiscard]] virtual std::string why_tied() = 0;
  /// Goes on with `to` in another process, where this returns; an error where it cannot, and the rank is
  /// where it was. What peers write to this rank's memory would be lost: nobody of the host is in MPI
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
