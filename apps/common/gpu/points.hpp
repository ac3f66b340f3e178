// What a kernel does for each point of its work (common/gpu/engine.hpp), for nvcc and for the host's
// compiler.
#pragma once

#ifdef __CUDACC__
#define APPLICATION_DEVICE __host__ __device__ __forceinline__
#else
#define APPLICATION_DEVICE inline
#endif

namespace apps::gpu {

#ifdef __CUDACC__
// By all threads of a kernel together.
template <class Work>
__device__ __forceinline__ void for_all_points(const Work& work) {
  const long points = work.points();
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < points;
       i += static_cast<long>(gridDim.x) * blockDim.x)
    work.point(i);
}
#endif

}  // namespace apps::gpu
