// The kernels of breadth_first.
#include "work.hpp"
#if __has_include(<isthmus/fuse.cuh>)
#include "fused.hpp"
#endif

using namespace breadth_first;
using apps::gpu::for_all_points;

extern "C" {

__global__ void __launch_bounds__(128) breadth_first_copy(const __grid_constant__ CopyWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) breadth_first_local(const __grid_constant__ LocalWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) breadth_first_edges(const __grid_constant__ EdgesWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) breadth_first_fold(const __grid_constant__ FoldWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) breadth_first_begin(const __grid_constant__ BeginWork work) {
  for_all_points(work);
}
#if __has_include(<isthmus/fuse.cuh>)
// 8 blocks at a time on a multiprocessor: registers for no more.
__global__ void __launch_bounds__(128, 8) breadth_first_fused(const __grid_constant__ FusedWork work) {
  fused(work);
}
#endif

}  // extern "C"
