#pragma once

#include "streams/stream.hpp"

namespace isthmus::cuda {

struct GraphObject {
  std::vector<emulated::Work> work;  ///< in an order that respects what waits for what
};
struct GraphExecObject {
  std::vector<emulated::Work> work;
};

}  // namespace isthmus::cuda

namespace isthmus::emulated {

/// What a call begins with that a stream capture forbids, by its mode and the calling thread's: invalidates
/// such captures. Without the driver's mutex.
Status unsafe_in_capture();

}  // namespace isthmus::emulated
