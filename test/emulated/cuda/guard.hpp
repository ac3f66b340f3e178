#pragma once

namespace isthmus::emulated {

/// From now on a processor that touches memory of an emulated GPU is told so before it dies of it.
void watch_touches();

}  // namespace isthmus::emulated
