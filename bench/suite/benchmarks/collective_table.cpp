#include "suite/benchmarks/collective_table.hpp"

namespace isthmus::bench {
namespace {

// The three forms of a collective have the same arguments but for the request at the end.
#if MPI_VERSION >= 4
#define ISTHMUS_PERSISTENT_FORM(Name, ...)                                                       \
  [](const Arguments& a, MPI_Request* request) {                                                 \
    (void)a;                                                                                     \
    return MPI_##Name##_init(__VA_ARGS__ __VA_OPT__(, ) MPI_COMM_WORLD, MPI_INFO_NULL, request); \
  }
#else
#define ISTHMUS_PERSISTENT_FORM(Name, ...) nullptr
#endif
#define ISTHMUS_FORMS(Name, name, ...)                                          \
  [](const Arguments& a) {                                                      \
    (void)a;                                                                    \
    return MPI_##Name(__VA_ARGS__ __VA_OPT__(, ) MPI_COMM_WORLD);               \
  },                                                                            \
      [](const Arguments& a, MPI_Request* request) {                            \
        (void)a;                                                                \
        return MPI_I##name(__VA_ARGS__ __VA_OPT__(, ) MPI_COMM_WORLD, request); \
      },                                                                        \
      ISTHMUS_PERSISTENT_FORM(Name, __VA_ARGS__)

constexpr Collective table[] = {
    {"barrier", "every rank waits for all", false, false, false, false, Arrives::nothing,
     ISTHMUS_FORMS(Barrier, barrier)},
    {"bcast", "one block from the root to all", true, true, true, false, Arrives::roots_block,
     ISTHMUS_FORMS(Bcast, bcast, a.receive, a.count, a.type, a.root)},
    {"gather", "a block of each rank to the root", true, false, false, true, Arrives::block_of_each,
     ISTHMUS_FORMS(Gather, gather, a.send, a.count, a.type, a.receive, a.count, a.type, a.root)},
    {"gatherv", "gather with counts", true, false, false, true, Arrives::block_of_each,
     ISTHMUS_FORMS(Gatherv, gatherv, a.send, a.count, a.type, a.receive, a.counts.data(), a.offsets.data(),
                   a.type, a.root)},
    {"scatter", "a block for each rank from the root", false, true, false, false, Arrives::roots_own_block,
     ISTHMUS_FORMS(Scatter, scatter, a.send, a.count, a.type, a.receive, a.count, a.type, a.root)},
    {"scatterv", "scatter with counts", false, true, false, false, Arrives::roots_own_block,
     ISTHMUS_FORMS(Scatterv, scatterv, a.send, a.counts.data(), a.offsets.data(), a.type, a.receive, a.count,
                   a.type, a.root)},
    {"allgather", "a block of each rank to all", true, false, false, false, Arrives::block_of_each,
     ISTHMUS_FORMS(Allgather, allgather, a.send, a.count, a.type, a.receive, a.count, a.type)},
    {"allgatherv", "allgather with counts", true, false, false, false, Arrives::block_of_each,
     ISTHMUS_FORMS(Allgatherv, allgatherv, a.send, a.count, a.type, a.receive, a.counts.data(),
                   a.offsets.data(), a.type)},
    {"alltoall", "a block of each rank for each", false, false, false, false, Arrives::own_block_of_each,
     ISTHMUS_FORMS(Alltoall, alltoall, a.send, a.count, a.type, a.receive, a.count, a.type)},
    {"alltoallv", "alltoall with counts", false, false, false, false, Arrives::own_block_of_each,
     ISTHMUS_FORMS(Alltoallv, alltoallv, a.send, a.counts.data(), a.offsets.data(), a.type, a.receive,
                   a.counts.data(), a.offsets.data(), a.type)},
    {"alltoallw", "alltoall with a datatype for each rank", false, false, false, false,
     Arrives::own_block_of_each,
     ISTHMUS_FORMS(Alltoallw, alltoallw, a.send, a.counts.data(), a.byte_offsets.data(), a.types.data(),
                   a.receive, a.counts.data(), a.byte_offsets.data(), a.types.data())},
    {"reduce", "the sum of all ranks' blocks, to the root", true, true, false, true, Arrives::sum,
     ISTHMUS_FORMS(Reduce, reduce, a.send, a.receive, a.count, a.type, MPI_SUM, a.root)},
    {"allreduce", "the sum of all ranks' blocks, to all", true, true, false, false, Arrives::sum,
     ISTHMUS_FORMS(Allreduce, allreduce, a.send, a.receive, a.count, a.type, MPI_SUM)},
    {"reduce_scatter", "a block of the sum to each rank, with counts", false, true, false, false,
     Arrives::sum_of_own_blocks,
     ISTHMUS_FORMS(Reduce_scatter, reduce_scatter, a.send, a.receive, a.counts.data(), a.type, MPI_SUM)},
    {"reduce_scatter_block", "a block of the sum to each rank", false, true, false, false,
     Arrives::sum_of_own_blocks,
     ISTHMUS_FORMS(Reduce_scatter_block, reduce_scatter_block, a.send, a.receive, a.count, a.type, MPI_SUM)},
};

#undef ISTHMUS_FORMS
#undef ISTHMUS_PERSISTENT_FORM

}  // namespace

std::span<const Collective> collectives() {
  return table;
}

}  // namespace isthmus::bench
