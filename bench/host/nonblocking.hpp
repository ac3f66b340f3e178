// Benchmarks of collectives that are started and waited for, over all ranks of the job.
#pragma once

#include <cstddef>
#include <string_view>

#include "host/job.hpp"

namespace isthmus::bench {

// All in us, back to back, each started and at once waited for.
// Sum of doubles.
void iallreduce(const Job& job, std::string_view point, std::size_t bytes);
// The root moves on by one rank each time.
void ibcast(const Job& job, std::string_view point, std::size_t bytes);
// 100 sums under way on one communicator before the first is waited for: the time of one of them.
void iallreduce_many(const Job& job, std::string_view point, std::size_t bytes);
// `bytes` to and from each of 6 neighbours in a grid of three dimensions that is closed in all of them.
void neighbor_alltoall(const Job& job, std::string_view point, std::size_t bytes);

}  // namespace isthmus::bench
