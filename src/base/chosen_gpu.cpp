#include "base/chosen_gpu.hpp"

#include <cstdlib>

namespace isthmus {

std::string chosen_gpu() {
  const char* text = std::getenv(chosen_gpu_variable);
  return text ? text : "";
}

}  // namespace isthmus
