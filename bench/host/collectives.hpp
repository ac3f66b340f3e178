// Benchmarks of collectives over all ranks of the job.
#pragma once

#include <cstddef>
#include <string_view>

#include "host/job.hpp"

namespace isthmus::bench {

// All in us, back to back, buffers reused as in the OSU benchmarks.
void barrier(const Job& job, std::string_view point, std::size_t);
// Sum of doubles.
void allreduce(const Job& job, std::string_view point, std::size_t bytes);
// The root moves on by one rank each time, so that no rank can run ahead: the time until everyone has the
// data.
void bcast(const Job& job, std::string_view point, std::size_t bytes);
// Always from rank 0, back to back: consecutive broadcasts may overlap, the time is the inverse of the
// throughput.
void bcast_fixed_root(const Job& job, std::string_view point, std::size_t bytes);
// `bytes` from each rank to all.
void allgather(const Job& job, std::string_view point, std::size_t bytes);
// `bytes` from each rank to each.
void alltoall(const Job& job, std::string_view point, std::size_t bytes);

}  // namespace isthmus::bench
