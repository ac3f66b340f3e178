#pragma once

#include "base/error.hpp"
#include "p2p/message/request.hpp"

namespace isthmus {

/// Whether a loss holds up a receive from any source: it counts as complete, with an error of which the
/// program has to hear, and is still posted, because another process may send what it waits for.
inline bool is_held_up(const Request& receive) noexcept {
  return receive.kind == Request::Kind::receive && !receive.matched &&
         receive.status.error == static_cast<int>(ErrorClass::proc_failed_pending);
}

/// Lets such a receive go on; others stay as they are.
inline void resume(Request& receive) noexcept {
  if (!is_held_up(receive)) return;
  receive.complete = false;
  receive.status.error = 0;
}

}  // namespace isthmus
