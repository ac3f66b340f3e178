#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stuck/rank_state.hpp"

namespace isthmus::mpiexec::stuck {

/// "rank 3", "ranks 0-2, 5". `ranks` ascend.
std::string list_ranks(const std::vector<std::uint32_t>& ranks);
/// Of a communicator that `report` names, else by its number.
std::string name_of(std::uint64_t context, const wire::WaitReport& report);
/// "8 bytes"
std::string bytes_text(std::uint64_t bytes);
/// "12.3 s", "2 min 5 s"
std::string duration_text(double seconds);
/// What the rank does, without its number and without how long: "MPI_Recv from rank 2, tag 7, ..."
std::string describe(const RankState& rank);
/// The same without what has come and other things that it does not wait for.
std::string describe_briefly(const RankState& rank);
/// Who does the same, in one line.
std::vector<std::string> fold(const std::vector<RankState>& ranks);
/// The whole report: a line for those who are alike, then what follows from all together.
std::string report(const std::vector<RankState>& ranks);

}  // namespace isthmus::mpiexec::stuck
