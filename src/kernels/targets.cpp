// Apart from the image, which a tool need not contain to say what is in the library's.
#include "kernels/image.hpp"

#include <string>

namespace isthmus {

std::string_view kernel_targets() noexcept {
#ifdef ISTHMUS_KERNEL_TARGETS
  return ISTHMUS_KERNEL_TARGETS;
#else
  return {};
#endif
}

bool kernels_follow(int major) noexcept {
  constexpr int first = 9;
  return major >= first && kernel_targets().contains("sm_" + std::to_string(major) + "0");
}

}  // namespace isthmus
