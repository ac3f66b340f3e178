// GPU memory that is freed while the peer has it open: the peer lets go of it, so that the driver can give it
// out again, and what is then at the same addresses arrives as it is. Prints nothing when all is right. At 2
// ranks.
#include <dlfcn.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include "gpu_memory.hpp"
#include "launch/visit/descriptor_box.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

constexpr int rounds = 6;
constexpr std::size_t bytes = std::size_t{2} << 20U;

/// How many handles of that name the emulated driver has open; -1 where it is another driver.
int open_handles(std::string_view name) {
  using Describe = unsigned (*)(char*, std::size_t);
  auto* const describe = reinterpret_cast<Describe>(
      ::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "emulated_cuda_open_handles"));
  if (!describe) return -1;
  std::string text(4096, '\0');
  describe(text.data(), text.size());
  text.resize(std::strlen(text.c_str()));
  // As in "2 x stream, 1 x imported pool".
  std::istringstream all(text);
  for (std::string each; std::getline(all >> std::ws, each, ',');)
    if (each.ends_with(" x " + std::string(name))) return std::atoi(each.c_str());
  return 0;
}

struct Descriptors {
  int open = 0;
  int left = 0;  ///< bytes of what nobody has taken out of the region's box
};

/// Of this process, while no rank has begun with what comes next: an offer of that brings one along. One that
/// stays open keeps memory that the program has freed.
Descriptors descriptors() {
  Descriptors found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++found.open;
    const int fd = std::atoi(entry.path().filename().c_str());
    int bytes = 0;
    if (launch::DescriptorBox::is_one(fd) && ::ioctl(fd, FIONREAD, &bytes) == 0) found.left += bytes;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return found;
}

/// Both ranks' GPU memory is new in each round, and gone at its end.
void exchange(const Gpu& gpu, MemoryKind kind, int rank) {
  for (int round = 0; round < rounds; ++round) {
    Memory out(gpu, kind, bytes);
    Memory in(gpu, kind, bytes);
    out.write(std::vector<int>(bytes / sizeof(int), 100 * rank + round));
    MPI_Sendrecv(out.data(), bytes, MPI_BYTE, 1 - rank, 0, in.data(), bytes, MPI_BYTE, 1 - rank, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(in.read<int>(bytes / sizeof(int)) ==
          std::vector<int>(bytes / sizeof(int), 100 * (1 - rank) + round));
  }
}

/// Time in MPI, in which a rank tells its peers what has been freed and hears it from them.
void rest() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (std::chrono::steady_clock::now() < end) {
    int flag = 0;
    for (int i = 0; i < 100; ++i)
      MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  return run_on_gpu(argc, argv, [&](const Gpu& gpu, int rank) {
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pool}) {
      exchange(gpu, kind, rank);
      rest();
      const Descriptors before = descriptors();
      exchange(gpu, kind, rank);
      rest();
      const Descriptors after = descriptors();
      CHECK_EQUAL(after.open, before.open);
      CHECK_EQUAL(after.left, 0);
      // Of the emulated driver the handles can be counted; of a real one, what its GPU has free.
      if (open_handles("stream") > 0) {
        CHECK_EQUAL(open_handles("opened memory handle"), 0);
        CHECK_EQUAL(open_handles("imported pool pointer"), 0);
        CHECK(open_handles("imported pool") <= 4);
      } else {
        std::size_t free = 0;
        std::size_t total = 0;
        CHECK_CUDA(gpu.functions().memory_info(&free, &total));
        std::fprintf(stderr, "rank %d: %zu MiB free\n", rank, free >> 20U);
      }
    }
  });
}
