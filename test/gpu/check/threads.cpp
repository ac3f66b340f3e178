// Several threads at a time, and threads that have no context of CUDA.
#include <array>
#include <thread>

#include "places.hpp"

namespace isthmus::gpu_check {
namespace {

constexpr int threads = 4;

void exchange(const Setting& setting, MPI_Comm comm, int id, Place place, std::size_t bytes) {
  const int peer = 1 - setting.rank;
  const auto seed = [&](int rank) { return mix(bytes + static_cast<unsigned>(id * 7 + rank)); };
  Region out(setting, place, bytes);
  Region in(setting, place, bytes);
  out.fill(seed(setting.rank), bytes);
  in.clear();
  expect_success(MPI_Sendrecv(out.data(), static_cast<int>(bytes), MPI_BYTE, peer, id, in.data(),
                              static_cast<int>(bytes), MPI_BYTE, peer, id, comm, MPI_STATUS_IGNORE),
                 "Sendrecv");
  in.expect(seed(peer), bytes, "a message of one of several threads");
}

void together(const Setting& setting, const std::array<MPI_Comm, threads>& comms) {
  std::vector<std::thread> all;
  for (int id = 0; id < threads; ++id)
    all.emplace_back([&setting, &comms, id] {
      const Gpu own(setting.rank);
      const Setting here{.gpu = own, .rank = setting.rank, .size = setting.size, .quick = setting.quick};
      for (int round = 0; round < (setting.quick ? 3 : 30); ++round)
        for (const std::size_t bytes : {8, 5000, 200'000, 1'048'576})
          exchange(here, comms[static_cast<std::size_t>(id)], id, Place::device, bytes);
    });
  for (std::thread& each : all)
    each.join();
}

/// The thread that calls MPI has no context current, neither before nor after.
void without_context(const Setting& setting, Place place, std::size_t bytes) {
  const int peer = 1 - setting.rank;
  const int count = static_cast<int>(bytes);
  Region out(setting, place, bytes);
  Region in(setting, place, bytes);
  out.fill(mix(bytes + static_cast<unsigned>(setting.rank)), bytes);
  in.clear();
  std::thread([&] {
    expect_success(MPI_Sendrecv(out.data(), count, MPI_BYTE, peer, 1, in.data(), count, MPI_BYTE, peer, 1,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                   "Sendrecv");
    cuda::Context current = nullptr;
    CHECK_CUDA(setting.gpu.functions().context_current(&current));
    expect(current == nullptr, "MPI has left a context current");
  }).join();
  in.expect(mix(bytes + static_cast<unsigned>(peer)), bytes, "a thread without a context");
}

}  // namespace

void check_threads(const Setting& setting) {
  std::array<MPI_Comm, threads> comms{};
  for (MPI_Comm& comm : comms)
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  together(setting, comms);
  for (MPI_Comm& comm : comms)
    MPI_Comm_free(&comm);
  comms.fill(MPI_COMM_WORLD);
  together(setting, comms);
  using enum Place;
  for (const Place place : {device, vmm, default_pool, managed, managed_host, other_gpu})
    for (const std::size_t bytes : {8, 5000, 3'145'728})
      without_context(setting, place, bytes);
}

}  // namespace isthmus::gpu_check
