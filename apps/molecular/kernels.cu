// The kernels of molecular.
#include "work.hpp"
#if __has_include(<isthmus/fuse.cuh>)
#include "fused.hpp"
#endif

using namespace molecular;
using apps::gpu::for_all_points;

extern "C" {

__global__ void __launch_bounds__(128) molecular_move(const __grid_constant__ MoveWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) molecular_pack_atoms(const __grid_constant__ PackAtomsWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) molecular_unpack_atoms(const __grid_constant__ UnpackAtomsWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) molecular_sort(const __grid_constant__ SortWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) molecular_density(const __grid_constant__ DensityWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) molecular_pack_slopes(const __grid_constant__ PackSlopesWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128)
    molecular_unpack_slopes(const __grid_constant__ UnpackSlopesWork work) {
  for_all_points(work);
}
__global__ void __launch_bounds__(128) molecular_force(const __grid_constant__ ForceWork work) {
  for_all_points(work);
}
#if __has_include(<isthmus/fuse.cuh>)
__global__ void __launch_bounds__(128) molecular_fused(const __grid_constant__ FusedWork work) {
  fused(work);
}
#endif

}  // extern "C"
