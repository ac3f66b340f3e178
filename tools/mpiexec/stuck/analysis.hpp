#pragma once

#include <string>
#include <vector>

#include "stuck/rank_state.hpp"

namespace isthmus::mpiexec::stuck {

/// What follows from what the ranks say: messages that match nothing, collectives that do not fit, circles of
/// waiting, and ranks that all others wait for in the end. A sentence each; none where nothing follows. A
/// pure function, whose findings hold for the moment of the look: each rank is looked at by itself, so a job
/// that goes on meanwhile may look as it never was.
std::vector<std::string> analyse(const std::vector<RankState>& ranks);

}  // namespace isthmus::mpiexec::stuck
