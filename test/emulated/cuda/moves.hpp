#pragma once

namespace isthmus::emulated {

/// With EMULATED_CUDA_MOVES, now and then: pages of some managed memory go elsewhere, as those of a real
/// driver do whenever somebody touches their neighbours. Called where no lock is held.
void perhaps_move_pages();

}  // namespace isthmus::emulated
