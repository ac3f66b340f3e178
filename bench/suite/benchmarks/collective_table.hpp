// The collectives: how much memory each has on each side, how it is called, and what must have arrived.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace isthmus::bench {

// What a call needs. `bytes` is the size of one block, as the OSU suite counts a collective's size.
struct Arguments {
  void* send = nullptr;
  void* receive = nullptr;
  int count = 0;  // elements of `type` in a block
  MPI_Datatype type = MPI_BYTE;
  int root = 0;
  std::vector<int> counts;        // `count` for each rank
  std::vector<int> offsets;       // of each rank's block, in elements
  std::vector<int> byte_offsets;  // for alltoallw
  std::vector<MPI_Datatype> types;
};

// What a rank must have received, in block b of its buffer.
enum class Arrives : std::uint8_t {
  nothing,
  roots_block,        // the root's only block
  roots_own_block,    // the root's block for this rank
  block_of_each,      // b is rank b's only block
  own_block_of_each,  // b is rank b's block for this rank
  sum,                // the sum of all ranks' only block
  sum_of_own_blocks,  // the sum of all ranks' block for this rank
};

struct Collective {
  std::string_view name;
  std::string_view meaning;
  // Blocks of a rank's memory: one, or one for each rank.
  bool sends_one;
  bool receives_one;
  bool in_place;      // one buffer, as broadcast has
  bool at_root_only;  // only the root receives
  Arrives arrives;
  int (*blocking)(const Arguments&);
  int (*nonblocking)(const Arguments&, MPI_Request*);
  int (*persistent)(const Arguments&, MPI_Request*);  // nullptr where mpi.h has none
};

std::span<const Collective> collectives();

constexpr bool adds_up(const Collective& collective) {
  return collective.arrives == Arrives::sum || collective.arrives == Arrives::sum_of_own_blocks;
}

}  // namespace isthmus::bench
