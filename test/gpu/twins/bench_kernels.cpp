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

constexpr size_t touch_parameters[] = {sizeof(unsigned long long), sizeof(unsigned long long), 0};
constexpr size_t no_parameters[] = {0};

}  // namespace

extern "C" __attribute__((visibility("default")))
const EmulatedTwin emulated_twins[] = {{"isthmus_bench_touch", touch, touch_parameters},
                                       {"isthmus_bench_nothing", nothing, no_parameters},
                                       {nullptr, nullptr, nullptr}};
