// Every blocking collective with its buffers in GPU memory, against the same on the host. Prints nothing when
// all is right. Any number of ranks.
#include <functional>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using Ints = std::vector<int>;

namespace {

int rank = -1;
int size = 0;

Ints values(std::size_t count, int seed) {
  Ints made(count);
  for (std::size_t i = 0; i < count; ++i)
    made[i] = static_cast<int>(i) * 3 + rank * 1001 + seed;
  return made;
}

/// A collective from `send_count` to `receive_count` ints. `call(send, receive)` with pointers to either
/// memory.
void check(const Gpu& gpu, MemoryKind kind, std::size_t send_count, std::size_t receive_count,
           const std::function<void(void*, void*)>& call) {
  const Ints sent = values(send_count, 5);
  Ints wanted(receive_count, -7);
  call(const_cast<int*>(sent.data()), wanted.data());
  Memory send(gpu, kind, (send_count + 1) * sizeof(int));
  Memory receive(gpu, kind, (receive_count + 1) * sizeof(int));
  send.write(sent);
  receive.write(Ints(receive_count + 1, -7));
  call(send.data(), receive.data());
  const Ints got = receive.read<int>(receive_count + 1);
  CHECK(std::equal(wanted.begin(), wanted.end(), got.begin()));
  CHECK_EQUAL(got.back(), -7);
  CHECK(send.read<int>(send_count) == sent);
}

/// The same in place: `call(buffer)`.
void check_here(const Gpu& gpu, MemoryKind kind, std::size_t count, const std::function<void(void*)>& call) {
  Ints wanted = values(count, 8);
  Memory buffer(gpu, kind, count * sizeof(int));
  buffer.write(wanted);
  call(wanted.data());
  call(buffer.data());
  CHECK(buffer.read<int>(count) == wanted);
}

void check_all(const Gpu& gpu, MemoryKind kind, int count) {
  const auto n = static_cast<std::size_t>(size);
  const auto c = static_cast<std::size_t>(count);
  const MPI_Comm comm = MPI_COMM_WORLD;
  const int root = size - 1;
  Ints counts, places;
  int total = 0;
  for (int i = 0; i < size; ++i) {
    counts.push_back(count + i);
    places.push_back(total);
    total += count + i + 1;
  }
  const auto t = static_cast<std::size_t>(total);
  const int mine = counts[static_cast<std::size_t>(rank)];

  check_here(gpu, kind, c, [&](void* b) { MPI_Bcast(b, count, MPI_INT, root, comm); });
  check(gpu, kind, c, c * n,
        [&](void* s, void* r) { MPI_Gather(s, count, MPI_INT, r, count, MPI_INT, root, comm); });
  check(gpu, kind, c * n, c,
        [&](void* s, void* r) { MPI_Scatter(s, count, MPI_INT, r, count, MPI_INT, root, comm); });
  check(gpu, kind, c + n, t, [&](void* s, void* r) {
    MPI_Gatherv(s, mine, MPI_INT, r, counts.data(), places.data(), MPI_INT, root, comm);
  });
  check(gpu, kind, t, c + n, [&](void* s, void* r) {
    MPI_Scatterv(s, counts.data(), places.data(), MPI_INT, r, mine, MPI_INT, root, comm);
  });
  check(gpu, kind, c, c * n,
        [&](void* s, void* r) { MPI_Allgather(s, count, MPI_INT, r, count, MPI_INT, comm); });
  check_here(gpu, kind, c * n,
             [&](void* b) { MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, count, MPI_INT, comm); });
  check(gpu, kind, c + n, t, [&](void* s, void* r) {
    MPI_Allgatherv(s, mine, MPI_INT, r, counts.data(), places.data(), MPI_INT, comm);
  });
  check(gpu, kind, c * n, c * n,
        [&](void* s, void* r) { MPI_Alltoall(s, count, MPI_INT, r, count, MPI_INT, comm); });
  check_here(gpu, kind, c * n,
             [&](void* b) { MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, count, MPI_INT, comm); });
  const Ints same(n, count);
  Ints begins(n);
  for (int i = 0; i < size; ++i)
    begins[static_cast<std::size_t>(i)] = i * count;
  check(gpu, kind, c * n, c * n, [&](void* s, void* r) {
    MPI_Alltoallv(s, same.data(), begins.data(), MPI_INT, r, same.data(), begins.data(), MPI_INT, comm);
  });
  check(gpu, kind, c, c, [&](void* s, void* r) { MPI_Reduce(s, r, count, MPI_INT, MPI_SUM, root, comm); });
  check(gpu, kind, c, c, [&](void* s, void* r) { MPI_Allreduce(s, r, count, MPI_INT, MPI_MAX, comm); });
  check_here(gpu, kind, c, [&](void* b) { MPI_Allreduce(MPI_IN_PLACE, b, count, MPI_INT, MPI_SUM, comm); });
  check(gpu, kind, c * n, c,
        [&](void* s, void* r) { MPI_Reduce_scatter_block(s, r, count, MPI_INT, MPI_SUM, comm); });
  check(gpu, kind, c * n, c,
        [&](void* s, void* r) { MPI_Reduce_scatter(s, r, same.data(), MPI_INT, MPI_SUM, comm); });
  check(gpu, kind, c, c, [&](void* s, void* r) { MPI_Scan(s, r, count, MPI_INT, MPI_SUM, comm); });
  check(gpu, kind, c, c, [&](void* s, void* r) { MPI_Exscan(s, r, count, MPI_INT, MPI_SUM, comm); });
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  {
    const Gpu gpu(rank);
    for (const MemoryKind kind : every_kind)
      for (const int count : {1, 100, 20'000})
        check_all(gpu, kind, count);
    MPI_Finalize();
  }
  return 0;
}
