// Apart from the image, which a tool need not contain to say what is in the library's.
#include "kernels/image.hpp"

namespace isthmus {

std::string_view kernel_targets() noexcept {
#ifdef ISTHMUS_KERNEL_TARGETS
  return ISTHMUS_KERNEL_TARGETS;
#else
  return {};
#endif
}

}  // namespace isthmus
