// Messages while the emulated driver refuses things. At 2 ranks; the argument names the fault. With
// ISTHMUS_GPU_PATH set to staged:
//   short   little memory can be pinned: smaller windows serve
//   none    none can be pinned: the driver copies by itself
//   lost    the sender's GPU fails in the middle: both sides get an error, and the next message arrives
// and by whatever way:
//   memory  the GPU has no memory left to pack a message in: it is packed on the host
//   sender, receiver
//           that rank is killed while bytes are on their way. With ISTHMUS_GPU_PATH set to pull and push, the
//           other's copy outlives it, and is whole
//   mixed   rank 1 does not use CUDA
//   tight   the sender's GPU has no memory left to pack a message with gaps in, with ISTHMUS_GPU_PATH unset
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

constexpr int bytes = 20'000'000;

int rank = -1;

std::vector<int> pattern() {
  std::vector<int> values(bytes / sizeof(int));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<int>(i * 7);
  return values;
}

void check_message(Memory& memory) {
  if (rank == 0) {
    memory.write(pattern());
    CHECK_MPI(MPI_Send(memory.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
  } else {
    memory.write(std::vector<int>(bytes / sizeof(int)));
    CHECK_MPI(MPI_Recv(memory.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(memory.read<int>(bytes / sizeof(int)) == pattern());
  }
}

/// The send fails with the driver's error, and the receive because it does.
void check_lost(Memory& memory) {
  constexpr const char* launch_failed = "719";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Request request;
  if (rank == 0) {
    CHECK_MPI(MPI_Isend(memory.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
    CHECK_MPI(MPI_Recv(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    set_emulated("STICKY", launch_failed);
  } else {
    CHECK_MPI(MPI_Send(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
    CHECK_MPI(MPI_Irecv(memory.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request));
  }
  CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS);
  if (rank == 0) set_emulated("STICKY", "0");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/// What a GPU reads where it lies needs no memory to be packed in.
void check_tight(Memory& memory) {
  constexpr int blocks = 10'000;
  MPI_Datatype strided;
  MPI_Type_vector(blocks, 2, 4, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  if (rank == 0) {
    memory.write(pattern());
    set_emulated("MEMORY", "1");
    MPI_Send(memory.data(), 1, strided, 1, 0, MPI_COMM_WORLD);
    set_emulated("MEMORY", "1000000000");
  } else {
    std::vector<int> wanted(bytes / sizeof(int));
    memory.write(wanted);
    MPI_Recv(memory.data(), 1, strided, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (std::size_t i = 0; i < std::size_t{4} * blocks; ++i)
      if (i % 4 < 2) wanted[i] = static_cast<int>(i * 7);
    CHECK(memory.read<int>(wanted.size()) == wanted);
  }
  MPI_Type_free(&strided);
}

/// Half of the ints of 1 MB, in blocks at distances that no loop has, so that they must be packed.
void check_no_room(Memory& memory) {
  constexpr int blocks = 125'000;
  std::vector<int> places(blocks / 100);
  for (std::size_t i = 0; i < places.size(); ++i)
    places[i] = static_cast<int>(i * 200 + i % 2);
  MPI_Datatype gaps;
  MPI_Type_create_indexed_block(blocks / 100, 100, places.data(), MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  // Nothing, then some beside the 20 MB that are in use, then enough.
  for (const char* room : {"1", "20300000", "1000000000", "1"}) {
    set_emulated("MEMORY", room);
    if (rank == 0) {
      memory.write(pattern());
      CHECK_MPI(MPI_Send(memory.data(), 1, gaps, 1, 0, MPI_COMM_WORLD));
      continue;
    }
    memory.write(std::vector<int>(bytes / sizeof(int)));
    CHECK_MPI(MPI_Recv(memory.data(), 1, gaps, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    const std::vector<int> got = memory.read<int>(2 * blocks);
    const std::vector<int> wanted = pattern();
    for (std::size_t i = 0; i + 100 < got.size(); ++i)
      CHECK_EQUAL(got[i], (i % 200) - (i / 200 % 2) < 100 ? wanted[i] : 0);
  }
  MPI_Type_free(&gaps);
}

/// mpiexec gives the other rank half a second from then on.
[[noreturn]] void check_killed(Memory& memory, bool is_victim) {
  constexpr double under_way = 0.06;  // seconds, of 0.2
  std::signal(SIGTERM, SIG_IGN);
  MPI_Request request;
  const std::vector<int> wanted = pattern();
  if (rank == 0) memory.write(wanted);
  set_emulated("MEGABYTES_PER_SECOND", "100");
  if (rank == 0) {
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_MPI(MPI_Isend(memory.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
  } else {
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_MPI(MPI_Irecv(memory.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request));
  }
  const double begin = MPI_Wtime();
  while (is_victim && MPI_Wtime() - begin < under_way) {
    int is_over = 0;
    CHECK_MPI(MPI_Test(&request, &is_over, MPI_STATUS_IGNORE));
  }
  if (is_victim) ::raise(SIGKILL);
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  set_emulated("MEGABYTES_PER_SECOND", "0");
  CHECK(memory.read<int>(bytes / sizeof(int)) == wanted);
  std::fprintf(stderr, "outlived\n");
  ::_exit(0);
}

/// Between GPU memory of rank 0 and memory of rank 1, which has never heard of CUDA; lengths around each
/// change of way.
void check_mixed() {
  constexpr std::array sizes{1, 32, 16'384, 16'385, 1'000'000, bytes};
  std::vector<int> values(bytes / sizeof(int));
  if (rank == 1) {
    for (const int size : sizes) {
      MPI_Recv(values.data(), size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(values.data(), size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    CHECK(values == pattern());
    return;
  }
  const Gpu gpu(rank);
  Memory from(gpu, MemoryKind::device, bytes);
  Memory to(gpu, MemoryKind::device, bytes);
  from.write(pattern());
  for (const int size : sizes) {
    to.write(std::vector<int>(bytes / sizeof(int)));
    MPI_Send(from.data(), size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(to.data(), size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::vector<int> wanted = pattern();
    std::memset(reinterpret_cast<char*>(wanted.data()) + size, 0, static_cast<std::size_t>(bytes - size));
    CHECK(to.read<int>(bytes / sizeof(int)) == wanted);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string_view fault = argc > 1 ? argv[1] : "";
  if (fault == "mixed") {
    check_mixed();
    MPI_Finalize();
    return 0;
  }
  {
    const Gpu gpu(rank);
    Memory memory(gpu, MemoryKind::device, bytes);
    if (fault == "short") set_emulated("PINNED", "1500000");
    if (fault == "none") set_emulated("PINNED", "1");
    if (fault == "lost") check_lost(memory);
    if (fault == "tight") check_tight(memory);
    if (fault == "memory") check_no_room(memory);
    if (fault == "sender" || fault == "receiver") check_killed(memory, rank == (fault == "sender" ? 0 : 1));
    check_message(memory);
    check_message(memory);
    MPI_Finalize();
  }
  return 0;
}
