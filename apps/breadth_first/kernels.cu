// The kernels of breadth_first.
#include "work.hpp"

using namespace breadth_first;
using apps::gpu::for_all_points;

extern "C" {

__global__ void __launch_bounds__(128) breadth_first_copy(const __grid_constant__ CopyWork work) {
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

}  // extern "C"
