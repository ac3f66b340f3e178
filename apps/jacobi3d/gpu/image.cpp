#include "gpu/image.hpp"

#ifdef JACOBI_KERNELS
asm(".section .rodata\n"  // NOLINT(hicpp-no-assembler)
    ".balign 64\n"
    "jacobi_kernel_image:\n"
    ".incbin \"" JACOBI_KERNELS
    "\"\n"
    ".previous\n");
extern "C" const char jacobi_kernel_image[];  // NOLINT(*-avoid-c-arrays)
#endif

namespace jacobi::gpu {

const void* kernel_image() {
#ifdef JACOBI_KERNELS
  return jacobi_kernel_image;
#else
  return nullptr;
#endif
}

}  // namespace jacobi::gpu
