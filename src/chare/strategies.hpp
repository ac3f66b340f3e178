#pragma once

#include <cstdint>
#include <span>

#include <isthmus/chare_runtime.h>

namespace isthmus::chare {

using Load = isthmus_chare_load;

/// Sets `to` of all that may move: the heaviest first, each to the process with the least so far, and where
/// its own has as little, there. Within 4/3 of the best (Graham, "Bounds on multiprocessing timing
/// anomalies", SIAM J. Appl. Math. 17, 1969), whoever has to move for it. O(n log n).
void place_greedily(std::span<Load> loads, std::uint32_t processes);

/// Sets `to` of few: as long as a process has more than 1.02 of the mean, one of its chares goes to the
/// process with the least, if that lowers the larger of the two: the heaviest that leaves the receiver
/// at 1.02 of the mean or less, else the lightest. O(n log n) and O(log n) a move.
void refine(std::span<Load> loads, std::uint32_t processes);

}  // namespace isthmus::chare
