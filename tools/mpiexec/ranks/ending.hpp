#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wire/region.hpp"

namespace isthmus::mpiexec {

/// How a rank's end makes the job fail.
struct Failure {
  enum class Kind : std::uint8_t { exit_code, signal, no_finalize, abort } kind;
  std::uint32_t rank;
  pid_t pid;
  int value;               ///< exit code, number of the signal, code of MPI_Abort
  bool finalized = false;  ///< after MPI_Finalize: the other ranks do not need this one any more
  bool core_dumped = false;
  std::uint32_t ranks = 1;  ///< from `rank` on, where which of those of a process it was cannot be said
  std::string all = {};     ///< these, as in "ranks 1, 4 to 7", where they do not follow one another

  /// mpiexec's own exit status: 0 only for MPI_Abort with code 0.
  [[nodiscard]] int exit_status() const;
  /// "rank 3 (pid 4711) on host abc killed by signal 9 (Killed)"
  [[nodiscard]] std::string describe(const std::string& host) const;
};

/// The last line of a job whose ranks have outlived others: "2 of 8 ranks have not lived to the end: ..."
std::string describe_dead(const std::vector<Failure>& dead, std::size_t ranks,
                          const std::function<std::string(const Failure&)>& describe);

/// The ranks that mpiexec has started on this host: from `first`, in order.
struct LocalRanks {
  std::uint32_t first = 0;
  std::vector<pid_t> pids;       ///< the same for all ranks of a process
  std::uint32_t first_slot = 0;  ///< in the region, where each rank of the job has one if ranks change hosts

  /// The rank in `slot`, which may have been started on another host.
  [[nodiscard]] std::uint32_t rank_in(std::uint32_t slot) const noexcept { return first + slot - first_slot; }
  [[nodiscard]] std::uint32_t slot_of(std::uint32_t rank) const noexcept { return rank - first + first_slot; }
};

/// Ranks that are one process, one after the other.
struct ProcessRanks {
  std::uint32_t first;
  std::uint32_t count;
};

/// Whether the rank in `slot` is in that process now: it may have gone on in another than it was started in.
bool is_in(std::uint32_t slot, const ProcessRanks& process, const LocalRanks& ranks,
           const wire::RegionView& region);

/// What has failed, if anything has, when `rank` ends with `wait_status`. The region may have been
/// overwritten by a faulty rank: every value in it is possible.
std::optional<Failure> judge(std::uint32_t rank, int wait_status, const LocalRanks& ranks,
                             const wire::RegionView& region);
/// The same when a process ends that may be several ranks: that of the rank which it has ended for.
std::optional<Failure> judge(const ProcessRanks& process, int wait_status, const LocalRanks& ranks,
                             const wire::RegionView& region);

}  // namespace isthmus::mpiexec
