// Rank 0 sends messages from memory of a kind to rank 1's memory of a kind: FROM TO BYTES COUNT [MORE
// SETTING VALUE]... After COUNT of them a setting of the emulated driver changes in both processes, and MORE
// follow, and so on. One at a time, or with `window=N` before all that N under way together. Rank 1 looks at
// every byte.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

/// By the beginning of its name: "device", "pinned".
MemoryKind kind_named(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(every_kind, [&](MemoryKind kind) { return name_of(kind).starts_with(name); });
  CHECK(found != std::ranges::end(every_kind));
  return *found;
}

/// Messages number `first` and so on, as many as the window has.
void exchange(const std::vector<std::unique_ptr<Memory>>& buffers, int rank, std::size_t size, int first) {
  const int bytes = static_cast<int>(size);
  std::vector<MPI_Request> requests(buffers.size());
  const auto value_of = [&](std::size_t i) {
    return static_cast<unsigned char>(first + static_cast<int>(i));
  };
  if (rank == 0)
    for (std::size_t i = 0; i < buffers.size(); ++i)
      buffers[i]->write(std::vector<unsigned char>(size, value_of(i)));
  if (rank != 0)
    for (std::size_t i = 0; i < buffers.size(); ++i)
      MPI_Irecv(buffers[i]->data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0)
    for (std::size_t i = 0; i < buffers.size(); ++i)
      MPI_Isend(buffers[i]->data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  if (rank != 0)
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto came = buffers[i]->template read<unsigned char>(size);
      CHECK(std::ranges::count(came, value_of(i)) == static_cast<std::ptrdiff_t>(size));
    }
}

}  // namespace

int main(int argc, char** argv) {
  return run_on_gpu(argc, argv, [&](const Gpu& gpu, int rank) {
    int at = 1;
    const std::string_view first = argv[at];
    const int window = first.starts_with("window=") ? std::atoi(argv[at++] + 7) : 1;
    CHECK(argc >= at + 4);
    const MemoryKind kind = kind_named(argv[at + (rank == 0 ? 0 : 1)]);
    const std::size_t size = std::strtoull(argv[at + 2], nullptr, 10);
    std::vector<std::unique_ptr<Memory>> buffers;
    for (int i = 0; i < window; ++i)
      buffers.push_back(std::make_unique<Memory>(gpu, kind, size));
    int done = 0;
    for (at += 3; at < argc; at += 3) {
      for (const int end = done + std::atoi(argv[at]); done < end; done += window)
        exchange(buffers, rank, size, done);
      if (at + 2 < argc) set_emulated(argv[at + 1], argv[at + 2]);
    }
  });
}
