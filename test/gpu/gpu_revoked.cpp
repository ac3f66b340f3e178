// Messages that leave for a communicator after their receiver has revoked it, and before their sender has
// heard of that: each ends at its sender, from every kind of memory, while the communicator is still there.
// At 2 ranks. Prints nothing when all is right.
#include <mpi-ext.h>

#include <array>
#include <memory>
#include <vector>

#include "../mpi/told.h"
#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

enum Event : int { revoked, begun };

/// The messages of one kind of memory: short, longer than is sent at once, and in many pieces.
constexpr std::array<int, 3> sizes{8, 100'000, 6'000'000};

void send_late(const Gpu& gpu, MPI_Comm comm) {
  std::vector<MPI_Request> requests;
  std::vector<std::unique_ptr<Memory>> memories;
  for (const MemoryKind kind : every_kind)
    memories.push_back(std::make_unique<Memory>(gpu, kind, sizes.back()));
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(hear(revoked));
  bool has_heard = false;  // each call may be the one that hears of it
  for (const auto& memory : memories)
    for (const int size : sizes) {
      if (has_heard) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      const int error = class_of(MPI_Issend(memory->data(), size, MPI_BYTE, 1, 7, comm, &request));
      has_heard = error == MPIX_ERR_REVOKED;
      CHECK(has_heard || error == MPI_SUCCESS);
      if (!has_heard) requests.push_back(request);
    }
  say(begun);
  // Not MPI_Waitall: an error would end it before the others are over.
  for (MPI_Request& request : requests) {
    const int error = class_of(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(error == MPI_SUCCESS || error == MPIX_ERR_REVOKED);
  }
}

void check(const Gpu& gpu, int rank) {
  begin_saying();
  MPI_Comm comm = MPI_COMM_NULL;
  CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int word = 1;
  if (rank == 0) {
    send_late(gpu, comm);
    CHECK_MPI(MPI_Send(&word, 1, MPI_INT, 1, 8, MPI_COMM_WORLD));
  } else {
    const Memory used(gpu, MemoryKind::device, 8);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_MPI(MPIX_Comm_revoke(comm));
    say(revoked);
    CHECK(hear(begun));
    CHECK_MPI(MPI_Recv(&word, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  }
  CHECK_MPI(MPI_Comm_free(&comm));
  end_saying();
}

}  // namespace

int main(int argc, char** argv) {
  return run_on_gpu(argc, argv, check);
}
