// What is for processes of one rank, in a job whose processes have several (mpiexec --ranks-per-process):
// streams, enqueued operations and ports are refused in words, on all ranks and whatever they are given, and
// messages in GPU memory go on. Prints nothing when all is right.
#include <mpi-ext.h>

#include <isthmus/device.hpp>
#include <isthmus/stream.hpp>

#include <string_view>
#include <vector>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

constexpr const char* remedy = "Start the job without --ranks-per-process";

void check_streams(const Gpu& gpu) {
  cuda::Stream stream = nullptr;
  CHECK_CUDA(gpu.functions().stream_create(&stream, cuda::stream_non_blocking));
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", "cudaStream_t");
  CHECK_MPI(MPIX_Info_set_hex(info, "value", &stream, sizeof(cuda::Stream)));
  MPIX_Stream made = MPIX_STREAM_NULL;
  for (const MPI_Info each : {info, MPI_INFO_NULL}) {
    CHECK_ERROR(MPIX_Stream_create(each, &made), MPI_ERR_UNSUPPORTED_OPERATION, remedy);
    CHECK(made == MPIX_STREAM_NULL);
  }
  CHECK_ERROR(MPIX_Stream_create(info, nullptr), MPI_ERR_ARG, "stream");
  MPI_Info_free(&info);
  CHECK_CUDA(gpu.functions().stream_destroy(stream));
}

/// On a communicator of whose streams none could be made, and on one that never had any.
void check_enqueued(MPI_Comm comm) {
  constexpr int refused = MPI_ERR_UNSUPPORTED_OPERATION;
  int rank = -1, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const int next = (rank + 1) % ranks;
  std::vector<int> out(static_cast<std::size_t>(ranks)), in(out.size());
  const std::vector<int> ones(out.size(), 1);
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK_ERROR(MPIX_Send_enqueue(out.data(), 1, MPI_INT, next, 0, comm), refused, remedy);
  CHECK_ERROR(MPIX_Recv_enqueue(in.data(), 1, MPI_INT, next, 0, comm, MPI_STATUS_IGNORE), refused, remedy);
  CHECK_ERROR(MPIX_Isend_enqueue(out.data(), 1, MPI_INT, next, 0, comm, &request), refused, remedy);
  CHECK_ERROR(MPIX_Irecv_enqueue(in.data(), 1, MPI_INT, next, 0, comm, &request), refused, remedy);
  CHECK(request == MPI_REQUEST_NULL);
  CHECK_ERROR(MPIX_Barrier_enqueue(comm), refused, remedy);
  CHECK_ERROR(MPIX_Bcast_enqueue(out.data(), 1, MPI_INT, 0, comm), refused, remedy);
  CHECK_ERROR(MPIX_Allgather_enqueue(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, comm), refused, remedy);
  CHECK_ERROR(MPIX_Alltoall_enqueue(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, comm), refused, remedy);
  CHECK_ERROR(MPIX_Allreduce_enqueue(out.data(), in.data(), 1, MPI_INT, MPI_SUM, comm), refused, remedy);
  CHECK_ERROR(MPIX_Reduce_scatter_enqueue(out.data(), in.data(), ones.data(), MPI_INT, MPI_SUM, comm),
              refused, remedy);
  CHECK_ERROR(MPIX_Reduce_scatter_block_enqueue(out.data(), in.data(), 1, MPI_INT, MPI_SUM, comm), refused,
              remedy);
}

/// A port of streams or of kernels, as C++ programs make them: collective, so all have to be refused.
template <class Port, class Error>
void check_port(MPI_Comm comm) {
  bool is_refused = false;
  try {
    const Port port(comm, 4);
  } catch (const Error& error) {
    is_refused = true;
    CHECK_EQUAL(error.code(), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(std::string_view(error.what()).contains(remedy));
  }
  CHECK(is_refused);
}

void check_messages(const Gpu& gpu, int rank) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  constexpr int count = 40'000;
  constexpr std::size_t bytes = count * sizeof(int);
  Memory out(gpu, MemoryKind::device, bytes);
  const Memory in(gpu, MemoryKind::device, bytes);
  out.write(ascending(count, rank));
  const int from = (rank + ranks - 1) % ranks;
  CHECK_MPI(MPI_Sendrecv(out.data(), count, MPI_INT, (rank + 1) % ranks, 0, in.data(), count, MPI_INT, from,
                         0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK(in.read<int>(count) == ascending(count, from));
}

}  // namespace

int main(int argc, char** argv) {
  return run_on_gpu(argc, argv, [](const Gpu& gpu, int rank) {
    for (const MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF})
      MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    check_streams(gpu);
    MPI_Comm without;
    CHECK_MPI(MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, &without));
    for (const MPI_Comm comm : {MPI_COMM_WORLD, without})
      check_enqueued(comm);
    MPI_Comm_free(&without);
    for (const MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
      check_port<prepared::Port, prepared::Error>(comm);
      check_port<device::Port, device::Error>(comm);
    }
    check_messages(gpu, rank);
  });
}
