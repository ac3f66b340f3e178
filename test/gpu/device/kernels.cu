// The kernels of gpu_device and gpu_initiated.
#include "bodies.hpp"
#include "measure.hpp"

using namespace testing_device;

extern "C" {

__global__ void __launch_bounds__(256) device_exchange(const __grid_constant__ ExchangeWork work) {
  exchange(work);
}
__global__ void __launch_bounds__(256) device_relay(const __grid_constant__ RelayWork work) {
  relay(work);
}
__global__ void __launch_bounds__(256) device_team(const __grid_constant__ TeamWork work) {
  team(work);
}
__global__ void __launch_bounds__(256) device_call(const __grid_constant__ CallWork work) {
  call(work);
}
__global__ void __launch_bounds__(256) device_mail(const __grid_constant__ MailWork work) {
  mail(work);
}
__global__ void __launch_bounds__(256) device_jacobi(const __grid_constant__ JacobiWork work) {
  jacobi(work);
}

__global__ void __launch_bounds__(1024) device_measure(const __grid_constant__ MeasureWork work) {
  measure(work);
}

}  // extern "C"
