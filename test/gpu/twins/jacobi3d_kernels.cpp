// The kernels of apps/jacobi3d on the emulated driver: what each of their threads does, one after the other.
#include <cstddef>

#include "blocks.hpp"
#include "emulated_cuda.h"
#include "gpu/fused.hpp"
#include "gpu/work.hpp"

namespace {

using namespace jacobi::gpu;

constexpr int illegal_address = 700;

/// Where the emulated GPU has what a kernel was told to lie at `address`; false if that is nowhere.
template <class T>
bool see(T*& address) {
  address = static_cast<T*>(emulated_cuda_view(reinterpret_cast<unsigned long long>(address)));
  return address != nullptr;
}

int sweep(const EmulatedLaunch* launch) {
  auto work = *static_cast<const SweepWork*>(launch->parameters[0]);
  if (!see(work.now) || !see(work.older) || !see(work.source) || (work.largest && !see(work.largest)))
    return illegal_address;
  for (int z = 1; z <= work.shape.z; ++z)
    for (int y = 1; y <= work.shape.y; ++y)
      for (int x = 1; x <= work.shape.x; ++x) {
        const unsigned long long bits = bits_of(sweep_point(work, x, y, z));
        if (work.largest && bits > *work.largest) *work.largest = bits;
      }
  return 0;
}

template <void (*point)(const FacesWork&, int, int)>
int faces(const EmulatedLaunch* launch) {
  auto work = *static_cast<const FacesWork*>(launch->parameters[0]);
  if (!see(work.field)) return illegal_address;
  for (int face = 0; face < face_count; ++face) {
    if (!work.buffers[face]) continue;
    if (!see(work.buffers[face])) return illegal_address;
    for (int i = 0; i < points_of_face(work.shape, face); ++i)
      point(work, face, i);
  }
  return 0;
}

constexpr std::size_t sweep_bytes[] = {sizeof(SweepWork), 0};
constexpr std::size_t faces_bytes[] = {sizeof(FacesWork), 0};
constexpr std::size_t fused_bytes[] = {sizeof(FusedWork), 0};

}  // namespace

extern "C" __attribute__((visibility("default"))) const EmulatedTwin emulated_twins[] = {
    {"jacobi_sweep", sweep, sweep_bytes},
    {"jacobi_pack", faces<pack_point>, faces_bytes},
    {"jacobi_unpack", faces<unpack_point>, faces_bytes},
    {FusedWork::kernel, testing_twins::run_twin<FusedWork, fused>, fused_bytes},
    {nullptr, nullptr, nullptr}};
