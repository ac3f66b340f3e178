// Many messages of GPU memory in flight, both ways. At 2 ranks. The argument:
//   (none)  contents, of all kinds of memory and of lengths up to 300 KiB
//   short   contents, of short messages between GPU memory and memory of the host, and of memory that cannot
//           be handed on: those that are under way at a time are copied together
//   sender, receiver  of memory that cannot be handed on: rank 1, which is that, is killed in the middle of a
//           message. With `--on-failure continue`, on the emulated driver
//   freed   rank 0 frees one of the buffers that it sends while copies are still to be started
#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string_view>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

constexpr int messages = 64;
int rank = -1;

/// Of a message: ints more than of the one before.
int step = 1200;

int length_of(int message) {
  return 1 + message * step;
}

std::size_t bytes_of(int message) {
  return static_cast<std::size_t>(length_of(message)) * sizeof(int);
}

std::vector<int> values(int message, int sender) {
  return ascending(static_cast<std::size_t>(length_of(message)), 1000 * message + sender);
}

struct Window {
  Window(const Gpu& gpu, MemoryKind kind, Openness openness = Openness::open) {
    for (int i = 0; i < messages; ++i) {
      sent.push_back(std::make_unique<Memory>(gpu, kind, bytes_of(i), openness));
      received.push_back(std::make_unique<Memory>(gpu, kind, bytes_of(i), openness));
      sent.back()->write(values(i, rank));
    }
  }
  void start() {
    const int peer = 1 - rank;
    for (int i = 0; i < messages; ++i) {
      requests.emplace_back();
      CHECK_MPI(MPI_Irecv(received[at(i)]->data(), length_of(i), MPI_INT, peer, i, MPI_COMM_WORLD,
                          &requests.back()));
    }
    for (int i = 0; i < messages; ++i) {
      requests.emplace_back();
      CHECK_MPI(
          MPI_Isend(sent[at(i)]->data(), length_of(i), MPI_INT, peer, i, MPI_COMM_WORLD, &requests.back()));
    }
  }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  void check(int message) const {
    CHECK(received[at(message)]->read<int>(at(length_of(message))) == values(message, 1 - rank));
  }

  std::vector<std::unique_ptr<Memory>> sent, received;
  std::vector<MPI_Request> requests;
};

void check_contents(const Gpu& gpu) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pool, MemoryKind::managed}) {
    Window window(gpu, kind);
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
    window.start();
    CHECK_MPI(MPI_Waitall(2 * messages, window.requests.data(), MPI_STATUSES_IGNORE));
    for (int i = 0; i < messages; ++i)
      window.check(i);
  }
}

struct Pair {
  MemoryKind first, second;  ///< of rank 0 and of rank 1
  Openness openness = Openness::open;
};

/// Several times with the same buffers.
void check_short(const Gpu& gpu) {
  step = 100;
  constexpr std::array pairs{Pair{MemoryKind::device, MemoryKind::pageable},
                             Pair{MemoryKind::vmm, MemoryKind::pinned},
                             Pair{MemoryKind::pool, MemoryKind::pool, Openness::closed},
                             Pair{MemoryKind::pool, MemoryKind::pageable, Openness::closed},
                             Pair{MemoryKind::device, MemoryKind::managed}};
  for (const Pair& pair : pairs) {
    Window window(gpu, rank == 0 ? pair.first : pair.second, pair.openness);
    for (int round = 0; round < 8; ++round) {
      CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
      window.requests.clear();
      window.start();
      CHECK_MPI(MPI_Waitall(2 * messages, window.requests.data(), MPI_STATUSES_IGNORE));
      for (int i = 0; i < messages; ++i) {
        window.check(i);
        window.received[Window::at(i)]->write(std::vector(Window::at(length_of(i)), -1));
      }
    }
  }
}

void check_freed(const Gpu& gpu) {
  constexpr int gone = messages - 1;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Window window(gpu, MemoryKind::device);
  // So that memory is open, and copies of the last messages wait for those of the first.
  window.start();
  CHECK_MPI(MPI_Waitall(2 * messages, window.requests.data(), MPI_STATUSES_IGNORE));
  window.requests.clear();
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  set_emulated("MEGABYTES_PER_SECOND", "40");
  window.start();
  // All that the receiver asks for is heard, and little of it is started.
  const double begin = MPI_Wtime();
  while (MPI_Wtime() - begin < 0.02) {
    int is_over = 0;
    CHECK_MPI(MPI_Test(window.requests.data(), &is_over, MPI_STATUS_IGNORE));
  }
  if (rank == 0) window.sent[Window::at(gone)].reset();
  for (int i = 0; i < 2 * messages; ++i) {
    const int error = MPI_Wait(&window.requests[Window::at(i)], MPI_STATUS_IGNORE);
    const bool is_of_it = i == (rank == 0 ? messages + gone : gone);
    CHECK((error != MPI_SUCCESS) == is_of_it);
  }
  set_emulated("MEGABYTES_PER_SECOND", "0");
  for (int i = 0; i < messages; ++i)
    if (rank == 0 || i != gone) window.check(i);
}

void check_killed(const Gpu& gpu, bool is_sender) {
  constexpr int bytes = 40'000'000;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Memory memory(gpu, MemoryKind::pool, bytes, Openness::closed);
  const auto start = [&](int length) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (is_sender == (rank == 1))
      MPI_Isend(memory.data(), length, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &request);
    else
      MPI_Irecv(memory.data(), length, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &request);
    return request;
  };
  for (int i = 0; i < 2; ++i) {  // from the second on all is open
    MPI_Request request = start(bytes);
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  // A second for what the one copies that is to die, and as much as nothing for the other.
  if (rank == 1) set_emulated("MEGABYTES_PER_SECOND", "40");
  MPI_Request request = start(bytes);
  const double begin = MPI_Wtime();
  while (rank == 1 && MPI_Wtime() - begin < 0.2) {
    int is_over = 0;
    MPI_Test(&request, &is_over, MPI_STATUS_IGNORE);
    CHECK(is_over == 0);
  }
  if (rank == 1) std::raise(SIGKILL);
  CHECK_EQUAL(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_PROC_ABORTED);
  CHECK(MPI_Wtime() - begin < 5);
  std::printf("the %s's death: told\n", is_sender ? "sender" : "receiver");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  return run_on_gpu(argc, argv, [&](const Gpu& gpu, int my_rank) {
    rank = my_rank;
    if (which == "freed")
      check_freed(gpu);
    else if (which == "short")
      check_short(gpu);
    else if (which == "sender" || which == "receiver")
      check_killed(gpu, which == "sender");
    else
      check_contents(gpu);
  });
}
