#include "kernels/image.hpp"

#ifdef ISTHMUS_KERNEL_IMAGE
// A file's bytes, between two symbols of this object.
asm(".section .rodata\n"  // NOLINT(hicpp-no-assembler)
    ".balign 64\n"
    "isthmus_kernel_image:\n"
    ".incbin \"" ISTHMUS_KERNEL_IMAGE
    "\"\n"
    "isthmus_kernel_image_end:\n"
    ".byte 0\n"
    ".previous\n");
extern "C" {
[[gnu::visibility("hidden")]] extern const std::byte isthmus_kernel_image[];      // NOLINT(*-avoid-c-arrays)
[[gnu::visibility("hidden")]] extern const std::byte isthmus_kernel_image_end[];  // NOLINT(*-avoid-c-arrays)
}
#endif

namespace isthmus {

std::span<const std::byte> kernel_image() noexcept {
#ifdef ISTHMUS_KERNEL_IMAGE
  return {isthmus_kernel_image, isthmus_kernel_image_end};
#else
  return {};
#endif
}

}  // namespace isthmus
