#pragma once

#include <string>

namespace isthmus::vrank {

/// A library of the process whose variables hold addresses of ranks, as a sentence goes on; empty: none. What
/// a library allocates in the turn of a rank is the rank's: where it keeps that for all of the process, the
/// others would miss it when the rank has gone, and the rank would miss what another has allocated. Not
/// looked at are the C library and the unwinder, whose variables are known, and this library.
std::string keeper_of_ranks();

}  // namespace isthmus::vrank
