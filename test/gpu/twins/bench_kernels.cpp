// The host twins of the kernels in bench/suite/gpu/kernels.hpp, for the emulated driver.
#include "emulated_cuda.h"

namespace {

// Reads a byte of each page, as the kernel does, where the copy engine sees it.
int touch(const EmulatedLaunch* launch) {
  const auto address = *static_cast<unsigned long long*>(launch->parameters[0]);
  const auto bytes = *static_cast<unsigned long long*>(launch->parameters[1]);
  const unsigned long long threads = 1ULL * launch->grid[0] * launch->block[0];
  if (threads * 4096 < bytes) return 700;  // pages that no thread reads
  for (unsigned long long offset = 0; offset < bytes; offset += 4096) {
    const volatile unsigned char* seen = static_cast<unsigned char*>(emulated_cuda_view(address + offset));
    if (seen == nullptr) return 700;
    (void)*seen;
  }
  return 0;
}

int nothing(const EmulatedLaunch*) {
  return 0;
}

float* numbers(unsigned long long address) {
  return static_cast<float*>(emulated_cuda_view(address));
}

unsigned long long threads(const EmulatedLaunch* launch) {
  return 1ULL * launch->grid[0] * launch->block[0];
}

int copy(const EmulatedLaunch* launch) {
  float* to = numbers(*static_cast<unsigned long long*>(launch->parameters[0]));
  const float* from = numbers(*static_cast<unsigned long long*>(launch->parameters[1]));
  const auto count = *static_cast<unsigned long long*>(launch->parameters[2]);
  if (to == nullptr || from == nullptr || threads(launch) < count) return 700;
  for (unsigned long long i = 0; i < count; ++i)
    to[i] = from[i];
  return 0;
}

int stencil(const EmulatedLaunch* launch) {
  float* to = numbers(*static_cast<unsigned long long*>(launch->parameters[0]));
  const float* from = numbers(*static_cast<unsigned long long*>(launch->parameters[1]));
  const auto columns = *static_cast<unsigned long long*>(launch->parameters[2]);
  const auto rows = *static_cast<unsigned long long*>(launch->parameters[3]);
  if (to == nullptr || from == nullptr || threads(launch) < columns * rows) return 700;
  const unsigned long long pitch = columns + 2;
  for (unsigned long long row = 1; row <= rows; ++row)
    for (unsigned long long i = row * pitch + 1; i <= row * pitch + columns; ++i)
      to[i] = (from[i - pitch] + from[i + pitch] + (from[i - 1] + from[i + 1])) * 0.25F;
  return 0;
}

constexpr size_t copy_parameters[] = {8, 8, 8, 0};
constexpr size_t stencil_parameters[] = {8, 8, 8, 8, 0};
constexpr size_t touch_parameters[] = {sizeof(unsigned long long), sizeof(unsigned long long), 0};
constexpr size_t no_parameters[] = {0};

}  // namespace

extern "C" __attribute__((visibility("default")))
const EmulatedTwin emulated_twins[] = {{"isthmus_bench_touch", touch, touch_parameters},
                                       {"isthmus_bench_nothing", nothing, no_parameters},
                                       {"isthmus_bench_copy", copy, copy_parameters},
                                       {"isthmus_bench_stencil", stencil, stencil_parameters},
                                       {nullptr, nullptr, nullptr}};
