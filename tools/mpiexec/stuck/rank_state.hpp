#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/wait.hpp"

/// Why a job hangs (`mpiexec --timeout`, SIGQUIT to mpiexec, `isthmus stuck`): what is seen of each rank
/// without its help, and what follows from all of that together.
namespace isthmus::mpiexec::stuck {

/// What is seen of one rank.
struct RankState {
  enum class Where : std::uint32_t {
    unknown,    ///< its host has not answered
    before,     ///< has not come out of MPI_Init, or has not called it
    outside,    ///< in no MPI call that has waited for long
    waiting,    ///< `report` says for what
    finalized,  ///< is done with MPI_Finalize
    ended,      ///< its process is no more
  };
  std::uint32_t rank = 0;
  Where where = Where::unknown;
  char process = 0;    ///< state of its process as in /proc/PID/stat ('R', 'S', 'T'); 0: not seen
  double seconds = 0;  ///< that it has waited
  std::string host;
  wire::WaitReport report{};  ///< checked

  [[nodiscard]] bool is_stopped() const noexcept { return process == 'T' || process == 't'; }
};

/// For a frame between mpiexecs of one version and architecture.
std::string pack(const std::vector<RankState>& ranks);
/// Nothing where that is not what `pack` has written. Reports are checked again.
std::optional<std::vector<RankState>> unpack(std::string_view body, std::uint32_t world);

}  // namespace isthmus::mpiexec::stuck
