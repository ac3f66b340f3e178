// GPU memory that goes from GPU to GPU again after something was in the way. At 2 ranks of one host; with
// ISTHMUS_GPU_PATH=push, rank 1's explain tells how often that was not the way. The argument:
//   evicted   rank 1 receives into more allocations than rank 0 keeps open
//   hindered  rank 0 frees what it sends, more than once, before rank 1 has a buffer for it
//   reset     one rank after the other resets its device, with messages under way and without
#include <dlfcn.h>

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using Ints = std::vector<int>;

namespace {

constexpr int count = 30'000;
constexpr std::size_t bytes = count * sizeof(int);

int rank = -1;

Ints values(int seed) {
  return ascending(count, seed);
}

/// From rank 0 to rank 1.
void check_message(Memory& memory, int seed) {
  if (rank == 0) {
    memory.write(values(seed));
    CHECK_MPI(MPI_Send(memory.data(), count, MPI_INT, 1, 0, MPI_COMM_WORLD));
  } else {
    CHECK_MPI(MPI_Recv(memory.data(), count, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(memory.read<int>(count) == values(seed));
  }
}

void check_evicted(const Gpu& gpu) {
  constexpr int allocations = 300;  // of 256
  std::vector<std::unique_ptr<Memory>> memory;
  for (int i = 0; i < (rank == 0 ? 1 : allocations); ++i)
    memory.push_back(std::make_unique<Memory>(gpu, MemoryKind::vmm, bytes));
  for (int message = 0; message < allocations; ++message)
    check_message(*memory[static_cast<std::size_t>(message) % memory.size()], message);
  // Rank 0 has closed the first, and hears of its descriptor once more.
  for (int message = 0; message < 20; ++message)
    check_message(*memory[0], message);
}

void check_hindered(const Gpu& gpu) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Memory memory(gpu, MemoryKind::device, bytes);
  for (int message = 0; message < 20; ++message) {
    check_message(memory, message);
    if (message % 5 != 0) continue;
    if (rank == 0) {
      auto freed = std::make_unique<Memory>(gpu, MemoryKind::device, bytes);
      MPI_Request request;
      CHECK_MPI(MPI_Isend(freed->data(), count, MPI_INT, 1, 1, MPI_COMM_WORLD, &request));
      freed.reset();
      CHECK_MPI(MPI_Send(nullptr, 0, MPI_INT, 1, 2, MPI_COMM_WORLD));
      CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    } else {
      CHECK_MPI(MPI_Recv(nullptr, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      CHECK(MPI_Recv(memory.data(), count, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    }
  }
}

// --- reset

void reset(const Gpu& gpu) {
  using Reset = cuda::Status (*)(cuda::Device);
  auto* const reset = reinterpret_cast<Reset>(
      ::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "cuDevicePrimaryCtxReset_v2"));
  CHECK(reset != nullptr);
  CHECK_CUDA(reset(gpu.device()));
}

/// As the CUDA runtime uses a device again that has been reset.
class Again {
 public:
  explicit Again(const Gpu& gpu) : gpu_(gpu) {
    cuda::Context context = nullptr;
    CHECK_CUDA(gpu.functions().primary_retain(&context, gpu.device()));
  }
  Again(const Again&) = delete;
  Again& operator=(const Again&) = delete;
  ~Again() { CHECK_CUDA(gpu_.functions().primary_release(gpu_.device())); }

 private:
  const Gpu& gpu_;
};

/// Every way that GPU memory goes between the two ranks, and what each keeps for it.
void check_all_ways(const Gpu& gpu, int seed) {
  const int peer = 1 - rank;
  const auto exchange = [&](void* send, void* receive, int number, MPI_Datatype type) {
    CHECK_MPI(MPI_Sendrecv(send, number, type, peer, 5, receive, number, type, peer, 5, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE));
  };
  MPI_Datatype gaps;
  MPI_Datatype lists;
  const std::array<int, 3> lengths{100, 50, 7};
  const std::array<int, 3> places{0, 500, 9'000};
  MPI_Type_vector(count / 200, 100, 200, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  MPI_Type_indexed(3, lengths.data(), places.data(), MPI_INT, &lists);
  MPI_Type_commit(&lists);
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pool, MemoryKind::managed}) {
    Memory send(gpu, kind, bytes);
    Memory receive(gpu, kind, bytes);
    Ints host = values(seed);
    Ints expected(count);
    for (const auto& [type, number] :
         {std::pair{MPI_INT, count}, std::pair{MPI_INT, 8}, std::pair{gaps, 1}, std::pair{lists, 1}}) {
      for (const bool from_host : {false, true}) {
        const Ints sent = values(seed + 7 * rank);
        Ints wanted(count, -1);
        exchange(const_cast<int*>(sent.data()), wanted.data(), number, type);
        send.write(sent);
        receive.write(Ints(count, -1));
        exchange(from_host ? const_cast<int*>(sent.data()) : send.data(), receive.data(), number, type);
        CHECK(receive.read<int>(count) == wanted);
        if (!from_host) continue;
        Ints landed(count, -1);
        exchange(send.data(), landed.data(), number, type);
        CHECK(landed == wanted);
      }
    }
    CHECK_MPI(MPI_Allreduce(host.data(), expected.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    send.write(host);
    CHECK_MPI(MPI_Allreduce(send.data(), receive.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(receive.read<int>(count) == expected);
    CHECK_MPI(
        MPI_Alltoall(host.data(), count / 2, MPI_INT, expected.data(), count / 2, MPI_INT, MPI_COMM_WORLD));
    CHECK_MPI(
        MPI_Alltoall(send.data(), count / 2, MPI_INT, receive.data(), count / 2, MPI_INT, MPI_COMM_WORLD));
    CHECK(receive.read<int>(count) == expected);
  }
  MPI_Type_free(&lists);
  MPI_Type_free(&gaps);
}

/// With copies of that rank under way, which end in errors; the other rank hears of it. On the emulated
/// driver, which can be told to take its time.
void reset_under_way(const Gpu& gpu, int who) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int peer = 1 - rank;
  auto send = std::make_unique<Memory>(gpu, MemoryKind::device, bytes);
  auto receive = std::make_unique<Memory>(gpu, MemoryKind::device, bytes);
  send->write(values(1));
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  set_emulated("MEGABYTES_PER_SECOND", "2");  // 60 ms
  std::array<MPI_Request, 2> requests{};
  CHECK_MPI(MPI_Irecv(receive->data(), count, MPI_INT, peer, 8, MPI_COMM_WORLD, requests.data()));
  CHECK_MPI(MPI_Isend(send->data(), count, MPI_INT, peer, 8, MPI_COMM_WORLD, &requests[1]));
  const double begin = MPI_Wtime();
  while (MPI_Wtime() - begin < 0.02)
    for (MPI_Request& request : requests) {
      int is_over = 0;
      CHECK_MPI(MPI_Test(&request, &is_over, MPI_STATUS_IGNORE));
    }
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == who) {
    reset(gpu);
    set_emulated("MEGABYTES_PER_SECOND", "0");
  }
  std::array<int, 2> errors{};
  for (std::size_t i = 0; i < requests.size(); ++i)
    errors[i] = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  set_emulated("MEGABYTES_PER_SECOND", "0");
  // Each rank's GPU copies in one direction, whichever way that is.
  CHECK(rank != who || errors[0] != MPI_SUCCESS || errors[1] != MPI_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  // The reset has freed it.
  if (rank != who) return;
  send->forget();
  receive->forget();
}

void check_reset(const Gpu& gpu) {
  check_all_ways(gpu, 1);
  for (const int who : {0, 1}) {
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
    std::optional<Again> again;
    if (rank == who) {
      reset(gpu);
      // Nothing works there before the program uses it again.
      again.emplace(gpu);
    }
    check_all_ways(gpu, 2);
    std::optional<Again> and_again;
    if (emulated_driver()) {
      reset_under_way(gpu, who);
      if (rank == who) and_again.emplace(gpu);
    }
    check_all_ways(gpu, 3);
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  }
  // And so it ends, with memory of the other rank open.
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  reset(gpu);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  return run_on_gpu(argc, argv, [&](const Gpu& gpu, int my_rank) {
    rank = my_rank;
    if (which == "evicted") check_evicted(gpu);
    if (which == "hindered") check_hindered(gpu);
    if (which == "reset") check_reset(gpu);
  });
}
