// Benchmarks between rank 0 and rank 1 of a job of two.
#pragma once

#include <cstddef>
#include <string_view>

#include "host/job.hpp"

namespace isthmus::bench {

// MPI_Send and MPI_Recv back and forth, one way, as osu_latency: each rank has a send and a receive buffer
// and leaves both untouched. us.
void latency(const Job& job, std::string_view point, std::size_t bytes);
// The same, but each rank sends back the buffer it has just received, so that every message carries fresh
// data. us.
void latency_echo(const Job& job, std::string_view point, std::size_t bytes);
// latency's and latency_echo's transfers as GB/s: bytes by the one-way time.
void bandwidth(const Job& job, std::string_view point, std::size_t bytes);
void bandwidth_echo(const Job& job, std::string_view point, std::size_t bytes);
// A window of nonblocking sends one way, then an acknowledgement, as osu_bw. GB/s.
void bandwidth_window(const Job& job, std::string_view point, std::size_t bytes);
// The same with 64 messages a window, as osu_mbw_mr with one pair. M/s.
void message_rate(const Job& job, std::string_view point, std::size_t bytes);

}  // namespace isthmus::bench
