// What an application's kernel (apps/common/gpu/engine.hpp) is on the emulated driver: its points, one after
// the other.
#pragma once

#include <cstddef>

#include "emulated_cuda.h"

namespace twins {

constexpr int illegal_address = 700;

/// Where the emulated GPU has what a kernel was told to lie at `address`; false if that is nowhere.
template <class T>
bool see(T*& address) {
  address = static_cast<T*>(emulated_cuda_view(reinterpret_cast<unsigned long long>(address)));
  return address != nullptr;
}

template <class Work>
int run_points(const EmulatedLaunch* launch) {
  auto work = *static_cast<const Work*>(launch->parameters[0]);
  if (!work.addresses([](auto*& address) { return see(address); })) return illegal_address;
  const long points = work.points();
  for (long i = 0; i < points; ++i)
    work.point(i);
  return 0;
}

template <class Work>
constexpr std::size_t bytes_of[] = {sizeof(Work), 0};  // NOLINT(*-avoid-c-arrays)

template <class Work>
constexpr EmulatedTwin points_twin{Work::kernel, run_points<Work>, bytes_of<Work>};

}  // namespace twins
