// What `isthmus tune --gpu` and `./dev bench plans --gpu` start as two ranks: the time of one message from
// rank 0's memory to rank 1's at each size, until rank 0 has heard that it is there, in a line "SIZE
// MICROSECONDS", and behind it what one of the first messages took, where that is asked for.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "batches.hpp"
#include "gpu/driver/cuda_driver.hpp"

namespace {

using namespace isthmus;

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "measure_gpu_pair: %s\n", why);
  MPI_Abort(MPI_COMM_WORLD, 2);
  std::abort();
}

/// Memory of the kind that an argument names, and for a GPU's the driver with a context.
class Memory {
 public:
  Memory(std::string_view kind, int rank, std::size_t bytes) {
    const auto opened = driver_.open();
    if (!opened) give_up(opened.error().text().c_str());
    const cuda::Functions& cuda = **opened;
    int count = 0;
    cuda::Context context = nullptr;
    if (cuda.device_count(&count) != cuda::Status::success || count < 1) give_up("there is no GPU");
    if (cuda.primary_retain(&context, rank % count) != cuda::Status::success ||
        cuda.context_push(context) != cuda::Status::success)
      give_up("the GPU cannot be used");
    if (kind == "host") {
      host_.assign(bytes, 'x');
      data_ = host_.data();
      return;
    }
    if (kind == "pinned") {
      if (cuda.host_allocate(&data_, bytes, 0) != cuda::Status::success) give_up("no pinned memory");
      return;
    }
    cuda::Address address = 0;
    if (kind != "device" || cuda.allocate(&address, bytes) != cuda::Status::success)
      give_up("no memory of that kind");
    data_ = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  }
  [[nodiscard]] void* data() const { return data_; }

 private:
  CudaDriver driver_;
  std::vector<char> host_;
  void* data_ = nullptr;  ///< a GPU's goes with the process
};

/// What one of so many messages takes, in seconds.
double time_of(const Memory& memory, int rank, int bytes, int trips) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < trips; ++i) {
    if (rank == 0) {
      MPI_Send(memory.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(nullptr, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(memory.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
  }
  return (MPI_Wtime() - begin) / trips;
}

std::vector<double> measure(const Memory& memory, int rank, int bytes, const pair::Effort& effort) {
  const double first = effort.first > 0 ? time_of(memory, rank, bytes, effort.first) : 0;
  const int trips = std::clamp((1 << 22) / std::max(bytes, 1), 2, 50);
  std::vector<double> times{
      pair::median_of(effort.batches, [&] { return time_of(memory, rank, bytes, trips); })};
  if (effort.first > 0) times.push_back(first);
  return times;
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const pair::Effort effort(count > 5 ? arguments[2] : "0");
  if (size != 2 || effort.batches < 1)
    give_up(
        "isthmus tune starts it: latency BATCHES[+FIRST] FROM TO SIZE..., with memory device, pinned or "
        "host");
  const std::vector<int> sizes = pair::sizes_of(count, arguments, 5, 1);
  const Memory memory(arguments[3 + rank], rank, static_cast<std::size_t>(std::ranges::max(sizes)));
  pair::print_times(rank, sizes, effort, [&](int bytes) { return measure(memory, rank, bytes, effort); });
  MPI_Finalize();
  return 0;
}
