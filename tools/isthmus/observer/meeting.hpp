#pragma once

#include <string>

#include "observer/gate.hpp"

namespace isthmus::observer {

/// Seconds in which kernels of all processes meet: each has told the others that it is there, and heard of
/// all. That is an allreduce of 8 bytes of `memory`, enqueued, in a graph of some, less `piece`, what a piece
/// of a graph takes. 0 and why not, in words, where this MPI has none. Collective; the primary context is
/// current.
double time_meeting(const Driver& driver, Gate& gate, Address memory, double piece, std::string& why_not);

}  // namespace isthmus::observer
