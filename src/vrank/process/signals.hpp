#pragma once

namespace isthmus::vrank {

/// Signals that the process dies of are noted as the ending of the rank whose turn it is, and who has run
/// over its stack is told so.
void watch_signals();
/// Each thread has its own, for who runs over the stack of a rank.
void give_signals_a_stack();

}  // namespace isthmus::vrank
