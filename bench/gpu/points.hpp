// What bench_gpu measures. Every function is collective, and checks contents before it measures.
#pragma once

#include <cstddef>
#include <string_view>

#include "gpu/cuda.hpp"
#include "gpu/nccl.hpp"
#include "gpu/rounds.hpp"

namespace isthmus::bench {

struct Setting {
  const Rounds& rounds;
  const Cuda& cuda;
  const Nccl* nccl;  // null where there is none
};

// Between two ranks.
void pingpong(const Setting& with, std::string_view point, std::size_t bytes, Kind mine);
// 64 messages under way, one way or both.
void window(const Setting& with, std::string_view point, std::size_t bytes, bool both);
// To and from memory that the other rank has never seen.
void first_message(const Setting& with, std::string_view point, std::size_t bytes);
// A vector of 8-byte blocks, every other one, against the same bytes without gaps.
void vector(const Setting& with, std::string_view point, std::size_t bytes);
// From memory of `from` on rank 0 to memory of `to` on rank 1, and back.
void mixed(const Setting& with, std::string_view point, std::size_t bytes, Kind from, Kind to);

// Among all ranks; `bytes` is the whole vector, and of an allgather or alltoall all blocks of a rank
// together.
void allreduce(const Setting& with, std::string_view point, std::size_t bytes);
void bcast(const Setting& with, std::string_view point, std::size_t bytes);
void allgather(const Setting& with, std::string_view point, std::size_t bytes);
void allgatherv(const Setting& with, std::string_view point, std::size_t bytes);
void alltoall(const Setting& with, std::string_view point, std::size_t bytes);
void alltoall_in_place(const Setting& with, std::string_view point, std::size_t bytes);
void alltoallv(const Setting& with, std::string_view point, std::size_t bytes);
void scan(const Setting& with, std::string_view point, std::size_t bytes);

// Host memory; called before the program has initialised CUDA, with the way "raw", and after it.
void host_pingpong(const Rounds& rounds, std::string_view point, std::size_t bytes, const char* way);

}  // namespace isthmus::bench
