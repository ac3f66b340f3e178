#include "image.hpp"

#ifdef ISTHMUS_TEST_KERNELS
asm(".section .rodata\n"
    ".balign 64\n"
    "isthmus_test_kernels:\n"
    ".incbin \"" ISTHMUS_TEST_KERNELS
    "\"\n"
    ".previous\n");
extern "C" const unsigned char isthmus_test_kernels[];

const void* kernel_image() {
  return isthmus_test_kernels;
}
#else
// Enough for the emulated driver, which has twins of the kernels.
const void* kernel_image() {
  return ".version 8.3\n.target sm_70\n";
}
#endif
