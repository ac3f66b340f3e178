// The kernels of multigrid.
#include "work.hpp"
#if __has_include(<isthmus/fuse.cuh>)
#include "fused.hpp"
#endif

using namespace multigrid;
using apps::gpu::for_all_points;

extern "C" {

__global__ void __launch_bounds__(128) multigrid_local(const __grid_constant__ LocalWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) multigrid_pack(const __grid_constant__ PackWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) multigrid_unpack(const __grid_constant__ UnpackWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) multigrid_smooth(const __grid_constant__ SmoothWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) multigrid_restrict(const __grid_constant__ RestrictWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) multigrid_interpolate(const __grid_constant__ InterpolateWork work) {
  for_all_points(work);
}
#if __has_include(<isthmus/fuse.cuh>)
__global__ void __launch_bounds__(128) multigrid_fused(const __grid_constant__ FusedWork work) {
  fused(work);
}
#endif

}  // extern "C"
