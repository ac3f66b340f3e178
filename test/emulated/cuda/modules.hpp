#pragma once

namespace isthmus::emulated {

/// Of the objects in EMULATED_CUDA_TWINS.
void load_twins();

}  // namespace isthmus::emulated
