// Buffers that are not what MPI was told: freed memory of a GPU, addresses without memory, messages that go
// on beyond their allocation, host memory where GPU memory was promised. Errors with a class, and the library
// goes on. At 2 ranks; prints warnings. The argument chooses one of them.
#include <sys/mman.h>

#include <memory>
#include <string_view>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using Ints = std::vector<int>;

namespace {

constexpr int count = 50'000;
constexpr std::size_t bytes = count * sizeof(int);
int rank = -1;

Ints values(int seed) {
  return ascending(count, seed);
}

/// No call takes what lies there for a buffer.
void check_no_memory(void* address) {
  Ints good(count);
  int position = 0;
  MPI_Request request;
  for (const int n : {1, 8, count}) {
    CHECK_EQUAL(class_of(MPI_Send(address, n, MPI_INT, 1 - rank, 9, MPI_COMM_WORLD)), MPI_ERR_BUFFER);
    CHECK_EQUAL(class_of(MPI_Ssend(address, n, MPI_INT, rank, 9, MPI_COMM_WORLD)), MPI_ERR_BUFFER);
    CHECK_EQUAL(class_of(MPI_Recv(address, n, MPI_INT, 1 - rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
                MPI_ERR_BUFFER);
    CHECK_MPI(MPI_Irecv(address, n, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &request));
    CHECK_EQUAL(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_BUFFER);
    position = 0;
    CHECK_EQUAL(class_of(MPI_Pack(address, n, MPI_INT, good.data(), static_cast<int>(bytes), &position,
                                  MPI_COMM_SELF)),
                MPI_ERR_BUFFER);
    position = 0;
    CHECK_EQUAL(class_of(MPI_Unpack(good.data(), static_cast<int>(bytes), &position, address, n, MPI_INT,
                                    MPI_COMM_SELF)),
                MPI_ERR_BUFFER);
    CHECK_EQUAL(class_of(MPI_Reduce_local(address, good.data(), n, MPI_INT, MPI_SUM)), MPI_ERR_BUFFER);
    CHECK_EQUAL(class_of(MPI_Reduce_local(good.data(), address, n, MPI_INT, MPI_SUM)), MPI_ERR_BUFFER);
    CHECK_EQUAL(class_of(MPI_Sendrecv_replace(address, n, MPI_INT, 1 - rank, 9, 1 - rank, 9, MPI_COMM_WORLD,
                                              MPI_STATUS_IGNORE)),
                MPI_ERR_BUFFER);
    // All of them know it before anybody waits for another.
    CHECK_EQUAL(class_of(MPI_Bcast(address, n, MPI_INT, 0, MPI_COMM_WORLD)), MPI_ERR_BUFFER);
    CHECK_EQUAL(class_of(MPI_Allreduce(address, good.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD)),
                MPI_ERR_BUFFER);
    CHECK_EQUAL(class_of(MPI_Allgather(good.data(), n / 2, MPI_INT, address, n / 2, MPI_INT, MPI_COMM_WORLD)),
                n > 1 ? MPI_ERR_BUFFER : MPI_SUCCESS);
  }
}

/// A good message between GPU memories, and a good collective: whatever happened before.
void check_good(const Gpu& gpu, MemoryKind kind) {
  Memory send(gpu, kind, bytes);
  Memory receive(gpu, kind, bytes);
  send.write(values(rank));
  CHECK_MPI(MPI_Sendrecv(send.data(), count, MPI_INT, 1 - rank, 1, receive.data(), count, MPI_INT, 1 - rank,
                         1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK(receive.read<int>(count) == values(1 - rank));
  CHECK_MPI(MPI_Allreduce(send.data(), receive.data(), count, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
  CHECK(receive.read<int>(count) == values(1));
}

void* freed(const Gpu& gpu, MemoryKind kind) {
  const Memory memory(gpu, kind, bytes);
  return memory.data();
}

/// A message of which only the first half lies in memory: an error at both ends where that is found when it
/// is sent, and the receiver does not wait for what will not come; else at the one that is wrong.
void check_beyond(const Gpu& gpu, MemoryKind kind) {
  Memory half(gpu, kind, bytes / 2);
  Memory whole(gpu, kind, bytes);
  const MPI_Comm comm = MPI_COMM_WORLD;
  if (rank == 0) {
    CHECK(MPI_Send(half.data(), 4 << 20, MPI_INT, 1, 2, comm) != MPI_SUCCESS);
    CHECK_MPI(MPI_Send(nullptr, 0, MPI_INT, 1, 3, comm));
    std::vector<int> large(4U << 20U);
    CHECK_MPI(MPI_Send(large.data(), 4 << 20, MPI_INT, 1, 4, comm));
  } else {
    CHECK(MPI_Recv(whole.data(), count, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    CHECK_MPI(MPI_Recv(nullptr, 0, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE));
    CHECK(MPI_Recv(half.data(), 4 << 20, MPI_INT, 0, 4, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS);
  }
}

/// A buffer that is freed while its message is on the way. What arrives is not defined, and whether that is
/// an error: other memory may already lie there. Both calls return.
void check_freed_on_the_way(const Gpu& gpu, MemoryKind kind, bool is_open) {
  Memory target(gpu, kind, bytes);
  auto source = std::make_unique<Memory>(gpu, kind, bytes);
  source->write(values(3));
  const MPI_Comm comm = MPI_COMM_WORLD;
  if (rank == 0) {
    if (is_open) CHECK_MPI(MPI_Send(source->data(), count, MPI_INT, 1, 4, comm));
    MPI_Request request;
    CHECK_MPI(MPI_Isend(source->data(), count, MPI_INT, 1, 5, comm, &request));
    source.reset();
    CHECK_MPI(MPI_Send(nullptr, 0, MPI_INT, 1, 6, comm));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    if (is_open) CHECK_MPI(MPI_Recv(target.data(), count, MPI_INT, 0, 4, comm, MPI_STATUS_IGNORE));
    CHECK_MPI(MPI_Recv(nullptr, 0, MPI_INT, 0, 6, comm, MPI_STATUS_IGNORE));
    MPI_Recv(target.data(), count, MPI_INT, 0, 5, comm, MPI_STATUS_IGNORE);
  }
}

/// Whoever has promised GPU memory and has host memory gets the same result: a promise is a hint.
void check_promise() {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", "cuda:device");
  MPI_Comm promised;
  CHECK_MPI(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &promised));
  MPI_Info_free(&info);
  const Ints sent = values(rank);
  Ints got(count);
  CHECK_MPI(MPI_Sendrecv(sent.data(), count, MPI_INT, 1 - rank, 8, got.data(), count, MPI_INT, 1 - rank, 8,
                         promised, MPI_STATUS_IGNORE));
  CHECK(got == values(1 - rank));
  CHECK_MPI(MPI_Allreduce(sent.data(), got.data(), count, MPI_INT, MPI_MAX, promised));
  CHECK(got == values(1));
  CHECK_MPI(MPI_Comm_free(&promised));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const std::string_view chosen = argc > 1 ? argv[1] : "";
  const auto wants = [&](std::string_view what) { return chosen.empty() || what == chosen; };
  {
    const Gpu gpu(rank);
    check_promise();
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pool}) {
      if (wants("freed")) check_no_memory(freed(gpu, kind));
      check_good(gpu, kind);
      if (wants("beyond")) check_beyond(gpu, kind);
      check_good(gpu, kind);
      for (const bool is_open : {false, true}) {
        // A GPU that reads a peer's pool memory after it was freed loses its context (H200,
        // CUDA_ERROR_CONTAINED).
        if (wants("on the way") && kind != MemoryKind::pool) check_freed_on_the_way(gpu, kind, is_open);
        check_good(gpu, kind);
      }
    }
    void* const nowhere = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (wants("nowhere")) check_no_memory(nowhere);
    ::munmap(nowhere, bytes);
    check_good(gpu, MemoryKind::device);
    MPI_Finalize();
  }
  return 0;
}
