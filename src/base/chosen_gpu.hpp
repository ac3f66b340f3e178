#pragma once

#include <string>

namespace isthmus {

/// By it `mpiexec --gpu-bind` tells a rank which GPU it has chosen, in words for people.
inline constexpr const char* chosen_gpu_variable = "ISTHMUS_GPU";

/// What the variable says; empty for none.
std::string chosen_gpu();

}  // namespace isthmus
