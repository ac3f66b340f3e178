// The kernels of jacobi3d --gpu.
#include "work.hpp"
#if __has_include(<isthmus/fuse.cuh>)
#include "fused.hpp"
#endif

using namespace jacobi::gpu;

extern "C" {

// Blocks of 32 x 4 x 4 threads over the points.
__global__ void __launch_bounds__(512) jacobi_sweep(const __grid_constant__ SweepWork work) {
  __shared__ unsigned long long of_warps[16];
  const int x = 1 + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = 1 + static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  const int z = 1 + static_cast<int>(blockIdx.z * blockDim.z + threadIdx.z);
  unsigned long long largest = 0;
  if (x <= work.shape.x && y <= work.shape.y && z <= work.shape.z)
    largest = bits_of(sweep_point(work, x, y, z));
  if (work.largest == nullptr) return;
  for (int step = 16; step > 0; step /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffff'ffffU, largest, step);
    if (other > largest) largest = other;
  }
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  if (thread % 32 == 0) of_warps[thread / 32] = largest;
  __syncthreads();
  if (thread != 0) return;
  for (unsigned warp = 1; warp < blockDim.x * blockDim.y * blockDim.z / 32; ++warp)
    if (of_warps[warp] > largest) largest = of_warps[warp];
  atomicMax(work.largest, largest);
}

// A row of blocks for each face.
__global__ void __launch_bounds__(256) jacobi_pack(const __grid_constant__ FacesWork work) {
  const int face = static_cast<int>(blockIdx.y);
  if (work.buffers[face] == nullptr) return;
  const int points = points_of_face(work.shape, face);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < points;
       i += static_cast<int>(gridDim.x * blockDim.x))
    pack_point(work, face, i);
}

__global__ void __launch_bounds__(256) jacobi_unpack(const __grid_constant__ FacesWork work) {
  const int face = static_cast<int>(blockIdx.y);
  if (work.buffers[face] == nullptr) return;
  const int points = points_of_face(work.shape, face);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < points;
       i += static_cast<int>(gridDim.x * blockDim.x))
    unpack_point(work, face, i);
}

#if __has_include(<isthmus/fuse.cuh>)
// 8 blocks at a time on a multiprocessor: registers for no more.
__global__ void __launch_bounds__(128, 8) jacobi_fused(const __grid_constant__ FusedWork work) {
  fused(work);
}
#endif

}  // extern "C"
