#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vrank/fiber.hpp"
#include "vrank/rank_stack.hpp"
#include "vrank/worker.hpp"

namespace isthmus::vrank {

/// What the C edge has for a rank.
struct Edge {
  void* (*make)(RankTurns& turns);
  /// The calls of this thread, by its thread-local storage, are those of the rank with this runtime.
  void (*make_current)(void* runtime) noexcept;
  /// Whether the rank has begun MPI and not ended it, and whether it has called MPI_Finalize.
  bool (*is_open)(const void* runtime) noexcept;
  bool (*has_finalized)(const void* runtime) noexcept;
};

/// How ranks go on in other processes.
struct HostMoves {
  std::vector<HostWorker> workers;  ///< of all processes of the job
  HostLines* lines = nullptr;       ///< to those of other hosts; null: there are none
  std::uint32_t process = 0;        ///< which this is
  int region = -1, box = -1;        ///< descriptors
  std::string (*why_tied)(Fiber& fiber) = nullptr;
};

/// The ranks of a process and its workers. All ranks begin with worker 0, one after the other: what they do
/// before MPI_Init and in it may be for one thread at a time. Once each of them has joined the job or ended,
/// they *spread*: in blocks of neighbours, to all workers, each when it next gives way.
class Scheduler {
 public:
  /// Ranks from `first` on; at least one worker.
  Scheduler(std::uint32_t first, std::uint32_t count, std::uint32_t workers, const Edge& edge);

  /// Adds a rank that begins in `begin(argument)`, which must not return: it calls `end`. Before any of them
  /// runs.
  void add(Fiber& fiber, const RankStack& stack, void (*begin)(void*), void* argument);
  /// The rank whose turn it is on this thread has ended.
  [[noreturn]] static void end() noexcept;
  /// Null where the thread's stack is no rank's.
  [[nodiscard]] static Fiber* current() noexcept;

  [[nodiscard]] bool is_here(std::uint32_t rank) const noexcept {
    if (here_.empty()) return rank - first_ < count_;
    return rank < here_.size() && here_[rank].load(std::memory_order_acquire);
  }
  /// Ranks move to other processes and come from them, of a job of `world`. The process is there for them
  /// until `end_of_moves`.
  void allow_moves(HostMoves moves, std::uint32_t world);
  void end_of_moves() noexcept;
  [[nodiscard]] const HostMoves& moves() const noexcept { return moves_; }
  /// Rank `rank` leaves, when it has given up its turn; or it has come, for that worker.
  void leaves(std::uint32_t rank) noexcept;
  void comes(std::uint32_t rank, Fiber& fiber, std::uint32_t worker) noexcept;
  [[nodiscard]] std::uint32_t workers() const noexcept { return static_cast<std::uint32_t>(workers_.size()); }
  /// The same before it was made no more than there are ranks.
  [[nodiscard]] std::uint32_t workers_asked() const noexcept { return asked_; }
  [[nodiscard]] Worker& worker(std::uint32_t index) noexcept { return *workers_[index]; }
  /// Whether `environ` is that of the rank whose turn it is: as long as one worker has all of them.
  [[nodiscard]] bool switches_environment() const noexcept {
    return switches_environment_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool has_spread() const noexcept { return workers_.size() == 1 || !switches_environment(); }
  [[nodiscard]] bool has_ranks() const noexcept { return living_.load(std::memory_order_seq_cst) != 0; }

  /// `fiber` has joined the job, or ended: in its turn, or after it on its worker.
  void has_joined(Fiber& fiber) noexcept;
  void has_ended(Fiber& fiber) noexcept;

 private:
  void spread() noexcept;

  const std::uint32_t first_, count_, asked_;
  const Edge& edge_;
  char** const environment_;  ///< of the process
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Fiber*> fibers_;
  HostMoves moves_;
  std::vector<std::atomic<bool>> here_;  ///< by rank, where ranks move to other processes; else empty
  std::uint32_t joined_ = 0;
  std::atomic<std::uint32_t> living_{0};
  std::atomic<bool> switches_environment_{true};
};

}  // namespace isthmus::vrank
