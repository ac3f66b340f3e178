#include "common/gpu/image.hpp"

#ifdef APPLICATION_KERNELS
asm(".section .rodata\n"  // NOLINT(hicpp-no-assembler)
    ".balign 64\n"
    "application_kernel_image:\n"
    ".incbin \"" APPLICATION_KERNELS
    "\"\n"
    ".previous\n");
extern "C" const char application_kernel_image[];  // NOLINT(*-avoid-c-arrays)
#endif

namespace apps::gpu {

const void* kernel_image() {
#ifdef APPLICATION_KERNELS
  return application_kernel_image;
#else
  return nullptr;
#endif
}

}  // namespace apps::gpu
