// Times between two ranks with a GPU each: one way of a ping-pong between device memories, contiguous and
// with gaps. By hand: no test. A line for each point: name, bytes, microseconds, GB/s.
#include <algorithm>
#include <cstdio>

#include "gpu_memory.hpp"
#include "median_seconds.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

/// One way of a ping-pong of messages in blocks of 8 bytes with as much between them, beside contiguous ones.
void measure_gaps(const Gpu& gpu, int rank, std::size_t most) {
  const Memory send(gpu, MemoryKind::device, 2 * most);
  const Memory receive(gpu, MemoryKind::device, 2 * most);
  for (std::size_t bytes = 65536; bytes <= most; bytes *= 4) {
    MPI_Datatype gaps;
    MPI_Datatype run;
    MPI_Type_vector(static_cast<int>(bytes / 8), 8, 16, MPI_BYTE, &gaps);
    MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &run);
    for (MPI_Datatype type : {run, gaps}) {
      MPI_Type_commit(&type);
      const double seconds =
          median_seconds(5, 20,
                         [&] {
                           if (rank == 0) {
                             MPI_Send(send.data(), 1, type, 1, 0, MPI_COMM_WORLD);
                             MPI_Recv(receive.data(), 1, type, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                           } else {
                             MPI_Recv(receive.data(), 1, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                             MPI_Send(send.data(), 1, type, 0, 0, MPI_COMM_WORLD);
                           }
                         }) /
          2;
      if (rank == 0)
        std::printf("%s %zu %.2f us %.2f GB/s\n", type == run ? "device-run" : "device-gaps", bytes,
                    seconds * 1e6, static_cast<double>(bytes) / seconds * 1e-9);
      MPI_Type_free(&type);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_on_gpu(argc, argv, [&](const Gpu& gpu, int rank) {
    const std::size_t most = std::size_t{argc > 1 ? 1U : 64U} << 20U;
    for (const auto& [name, mine] : {std::pair{"device-device", MemoryKind::device},
                                     {"vmm-vmm", MemoryKind::vmm},
                                     {"host-device", rank == 0 ? MemoryKind::pageable : MemoryKind::device},
                                     {"pinned-device", rank == 0 ? MemoryKind::pinned : MemoryKind::device},
                                     {"managed-managed", MemoryKind::managed},
                                     {"host-host", MemoryKind::pageable}}) {
      Memory send(gpu, mine, most);
      Memory receive(gpu, mine, most);
      if (mine == MemoryKind::pageable || mine == MemoryKind::pinned) {
        std::memset(send.data(), 1, most);  // what was never written is one page of zeros
        std::memset(receive.data(), 1, most);
      }
      if (mine == MemoryKind::managed) {
        const cuda::Location here{.type = cuda::LocationType::device, .id = gpu.device()};
        for (const Memory* memory : {&send, &receive})
          CHECK_CUDA(gpu.functions().managed_prefetch(reinterpret_cast<cuda::Address>(memory->data()), most,
                                                      here, 0, default_stream));
        CHECK_CUDA(gpu.functions().stream_synchronize(default_stream));
      }
      for (std::size_t bytes = 8; bytes <= most; bytes *= bytes < 4096 ? 8 : 4) {
        const int count = static_cast<int>(bytes);
        const int rounds = bytes <= (1U << 20U) ? 200 : 10;
        const double seconds =
            median_seconds(
                5, rounds,
                [&] {
                  if (rank == 0) {
                    MPI_Send(send.data(), count, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
                    MPI_Recv(receive.data(), count, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                  } else {
                    MPI_Recv(receive.data(), count, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    MPI_Send(send.data(), count, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
                  }
                }) /
            2;
        if (rank == 0)
          std::printf("%s %zu %.2f us %.2f GB/s\n", name, bytes, seconds * 1e6,
                      static_cast<double>(bytes) / seconds * 1e-9);
      }
    }
    measure_gaps(gpu, rank, most);
  });
}
