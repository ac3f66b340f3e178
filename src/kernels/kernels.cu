// The GPU's side: every kernel calls the function of its name's body for the thread that it is.
#include "kernels/body/copy.hpp"
#include "kernels/body/courier_warp.hpp"
#include "kernels/body/mail.hpp"
#include "kernels/body/meet/packets.hpp"
#include "kernels/body/meet/pieces.hpp"
#include "kernels/body/move.hpp"
#include "kernels/body/order_part.hpp"
#include "kernels/body/put.hpp"
#include "kernels/body/reduce.hpp"
#include "kernels/body/reduce_list.hpp"

namespace isthmus::kernel {
namespace {

__device__ __forceinline__ Thread this_thread() {
  return {threadIdx.x, blockDim.x, blockIdx.x, gridDim.x};
}

}  // namespace

// Of a kernel that may be made ready while what is before it on its stream still runs (`Stream::launch`): from
// here on that has ended, and what it wrote is there (PTX ISA, griddepcontrol).
__device__ __forceinline__ void follow() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

extern "C" {

#define ISTHMUS_KERNEL_(operation, type, operation_name, type_name)                          \
  __global__ void __launch_bounds__(256)                                                     \
      isthmus_##operation_name##_##type_name(const __grid_constant__ ReduceArguments work) { \
    reduce<type, operation>(work, this_thread());                                            \
  }
ISTHMUS_REDUCE_KERNELS(ISTHMUS_KERNEL_)
#undef ISTHMUS_KERNEL_

#define ISTHMUS_KERNEL_(operation, type, operation_name, type_name)                               \
  __global__ void __launch_bounds__(meet_threads)                                                 \
      isthmus_meet_##operation_name##_##type_name(const __grid_constant__ MeetArguments work) {   \
    follow();                                                                                     \
    meet_reduce<type, operation>(work);                                                           \
  }
ISTHMUS_REDUCE_KERNELS(ISTHMUS_KERNEL_)
#undef ISTHMUS_KERNEL_

__global__ void __launch_bounds__(order_threads) isthmus_order(const __grid_constant__ OrderArguments work) {
  __shared__ MeetTable table;
  if (threadIdx.x == 0) table = work.table;
  __syncthreads();
  static_cast<void>(OrderPart(table, work.order, threadIdx.x, order_threads).run());
  __syncthreads();
  if (threadIdx.x != 0) return;
  device::detail::fence_gpu();
  device::detail::store_word(reinterpret_cast<device::u64*>(work.done), work.order.round);
}

__global__ void __launch_bounds__(meet_threads) isthmus_meet(const __grid_constant__ MeetArguments work) {
  follow();
  meet_move(work);
}

__global__ void __launch_bounds__(meet_threads, 2)
    isthmus_meet_in_pieces(const __grid_constant__ MeetArguments work) {
  follow();
  meet_in_pieces(work);
}

__global__ void __launch_bounds__(mail_threads) isthmus_send_mail(const __grid_constant__ MailArguments work) {
  follow();
  send_mail(work);
}
__global__ void __launch_bounds__(mail_threads)
    isthmus_receive_mail(const __grid_constant__ MailArguments work) {
  follow();
  receive_mail(work);
}

__global__ void __launch_bounds__(put_threads) isthmus_put(const __grid_constant__ PutArguments work) {
  follow();
  put(work);
}
__global__ void __launch_bounds__(32) isthmus_wait(const __grid_constant__ WaitArguments work) {
  follow();
  wait_for_words(work);
}

__global__ void __launch_bounds__(256) isthmus_copy(const __grid_constant__ CopyArguments work) {
  copy(work, this_thread());
}

__global__ void __launch_bounds__(courier_threads)
    isthmus_courier(const __grid_constant__ CourierArguments work) {
  __shared__ SharedParcel shared;
  const Warp warp{threadIdx.x, &shared};
  if (threadIdx.x == 0) shared.table.id = 0;
  if (threadIdx.x >= courier_lanes) return warp.help();
  if (warp.begin(work))
    serve(work, warp);
  else
    warp.tell(&work.board->left, work.number);
  warp.send_helpers_away();
}

#define ISTHMUS_KERNEL_(type, bytes)                                                                        \
  __global__ void __launch_bounds__(256) isthmus_move_##bytes(const __grid_constant__ MoveArguments work) { \
    move<type, false>(work, this_thread());                                                                 \
  }                                                                                                         \
  __global__ void __launch_bounds__(256)                                                                    \
      isthmus_move_many_##bytes(const __grid_constant__ MoveArguments work) {                               \
    move<type, true>(work, this_thread());                                                                  \
  }
ISTHMUS_MOVE_KERNELS(ISTHMUS_KERNEL_)
#undef ISTHMUS_KERNEL_

}  // extern "C"

}  // namespace isthmus::kernel
