#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "launch/region/shared_region.hpp"
#include "vrank/hosts/job_layout.hpp"
#include "vrank/hosts/lines.hpp"
#include "vrank/hosts/publication.hpp"
#include "vrank/process/move_steps.hpp"
#include "vrank/process/rank.hpp"
#include "vrank/process/rank_threads.hpp"
#include "vrank/process/ties.hpp"
#include "vrank/program_file.hpp"
#include "vrank/rank_memory.hpp"
#include "vrank/rank_space.hpp"
#include "vrank/scheduler.hpp"

namespace isthmus::vrank {

/// Carries ranks to other processes, and takes in those that come from them: within a host by what both have
/// in the region, and between hosts over a line.
class Porter {
 public:
  struct Parts {
    Process& process;
    const ProgramFile& file;
    const OwnMemory& memory;
    const launch::SharedRegion& region;
    Scheduler& scheduler;
    RankThreads& threads;
    std::uint32_t world;
    std::uint32_t first_slot;    ///< of the process's ranks
    std::uintptr_t process_top;  ///< where the process's heap ended when libraries alone had been begun
  };
  explicit Porter(const Parts& parts) : parts_(parts) {}

  /// What the launcher has given the ranks that the process starts with. `box`: the descriptor of the
  /// region's box in this process, -1 for none.
  struct Given {
    LauncherDescriptors launcher;
    int box = -1;
  };
  /// Before there are ranks.
  Result<> prepare(const Given& given);
  /// The process has started with these ranks, and what it has open now is none of theirs.
  void begin();
  /// No rank comes any more.
  void stop() noexcept { thread_ = {}; }
  /// This process has a copy of the program for `rank`.
  void has_copy(std::uint32_t rank) { copies_.insert(rank); }

  /// What keeps `rank` in its process, as a sentence goes on; empty: nothing. In its turn.
  [[nodiscard]] std::string why_tied(Rank& rank) const;
  /// Takes `rank`, which has given up its last turn here, to its destination, or back. On the thread of its
  /// worker.
  void depart(Rank& rank) noexcept;
  /// A rank has ended: so that processes end whose ranks have gone elsewhere.
  void tell_of_end(std::uint32_t rank, std::uint32_t ending) const noexcept;

 private:
  void carry(const std::stop_token& ends);
  void look_for_arrivals();
  void arrive(std::uint32_t slot) noexcept;
  Result<> take_in(std::uint32_t slot);
  void arrive(Lines::Arrival arrival) noexcept;
  /// What a rank that comes over a line is asked for, and for which worker.
  Result<std::uint32_t> take_in(const Lines::Arrival& arrival);
  Result<> take_in(std::uint32_t number, std::span<const MoveStep> steps, LeftMemory& from);
  void let_run(std::uint32_t number, std::uint32_t worker) noexcept;
  Result<> open_lines(const JobLayout& layout, const LauncherDescriptors& launcher);
  [[nodiscard]] HostMoves moves(const JobLayout& layout, int box) const;
  [[nodiscard]] std::vector<MoveStep> steps_of(const Rank& rank) const;
  [[nodiscard]] bool ask(Rank& rank, wire::Departure& departure) const;
  [[nodiscard]] bool ask_by_line(Rank& rank) const;
  [[nodiscard]] bool have_all_ended() const noexcept;
  [[nodiscard]] RankSpace space_of(std::uint32_t rank) const noexcept { return {rank, parts_.world}; }

  const Parts parts_;
  std::unique_ptr<Lines> lines_;  ///< null: all processes are on this host
  RegionFile region_file_;
  mutable std::mutex looking_;  ///< held by who opens files of /proc, which another would take for a rank's
  std::mutex mutex_;
  /// Ranks whose memory is still here: they may be back before it has gone.
  std::set<std::uint32_t> leaving_;
  std::condition_variable has_left_;
  std::set<std::uint32_t> copies_;  ///< used by the porter's thread alone, once it has begun
  std::jthread thread_;
};

}  // namespace isthmus::vrank
