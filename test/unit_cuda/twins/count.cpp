// A kernel's host twin in an object of its own: count(unsigned* counter), which every thread increments.
#include "emulated_cuda.h"

namespace {

int count(const EmulatedLaunch* launch) {
  auto* counter = *static_cast<unsigned**>(launch->parameters[0]);
  unsigned threads = 1;
  for (int i = 0; i < 3; ++i)
    threads *= launch->grid[i] * launch->block[i];
  *counter += threads;
  return 0;
}

constexpr size_t parameter_bytes[] = {sizeof(unsigned*), 0};

}  // namespace

extern "C" __attribute__((visibility("default")))
const EmulatedTwin emulated_twins[] = {{"count", count, parameter_bytes}, {nullptr, nullptr, nullptr}};
