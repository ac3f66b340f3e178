#pragma once

#include <dlfcn.h>
#include <isthmus/device.cuh>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "emulated_cuda.h"

/// Kernels that wait, on the emulated driver. A block is one thread of the host, and as many run at a time as
/// there would be multiprocessors, so that who waits for a block that has not begun waits for ever. Blocks
/// begin in any order, another one at each launch, as on a GPU.
namespace testing_twins {

/// emulated_cuda_view, which a program that is not linked with the emulated driver finds so.
inline auto find_view() {
  return reinterpret_cast<void* (*)(unsigned long long)>(
      ::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "emulated_cuda_view"));
}

/// With EMULATED_CUDA_SHUFFLE, what blocks find their memory by: one look in 64 takes up to 20 ms, as if the
/// block had been held up there. So tasks that no wait keeps in order are done in another one.
inline void* late_view(unsigned long long address) {
  static const auto view = find_view();
  thread_local std::mt19937 random(std::random_device{}());
  if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
  return view(address);
}

/// Of each GPU.
inline constexpr unsigned multiprocessors = 3;

template <class Body>
void run_blocks(const EmulatedLaunch& launch, Body body) {
  static const char* const shuffle = std::getenv("EMULATED_CUDA_SHUFFLE");
  static const auto view = shuffle && std::atoi(shuffle) != 0 ? late_view : find_view();
  isthmus::device::twin::view = view;
  const unsigned blocks = launch.grid[0] * launch.grid[1] * launch.grid[2];
  if (blocks == 1) {
    isthmus::device::twin::place() = {0, 1};
    body();
    return;
  }
  static std::atomic<unsigned> launches{0};
  std::vector<unsigned> order(blocks);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937(launches.fetch_add(1)));
  std::atomic<unsigned> next{0};
  const auto work = [&] {
    for (unsigned i = next.fetch_add(1); i < blocks; i = next.fetch_add(1)) {
      isthmus::device::twin::place() = {order[i], blocks};
      body();
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < std::min(blocks, multiprocessors); ++i)
    others.emplace_back(work);
  work();
  for (std::thread& each : others)
    each.join();
}

/// A twin of a kernel with one parameter.
template <class Work, void (*body)(const Work&)>
int run_twin(const EmulatedLaunch* launch) {
  const Work& work = *static_cast<const Work*>(launch->parameters[0]);
  run_blocks(*launch, [&] { body(work); });
  return 0;
}

}  // namespace testing_twins
