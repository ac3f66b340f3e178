#pragma once

#include <memory>
#include <set>

#include "driver.hpp"

namespace isthmus::cuda {

struct ContextObject {
  Device device = 0;
  bool is_primary = false;
  unsigned retained = 0;  ///< a primary context's; it is active while this is not 0
  bool alive = true;
  unsigned long long id = 0;       ///< another one after a reset
  std::set<ContextObject*> peers;  ///< to whose memory this one has access
  std::shared_ptr<StreamObject> legacy;
};

}  // namespace isthmus::cuda

namespace isthmus::emulated {

/// Of the calling thread, null if there is none.
Context current_context();
/// What functions begin with that need a current context.
Status enter_with_context(Context& context);

/// Whether a kernel or a mapping of `device` may reach memory of the device `other` of the machine.
bool can_reach(const Driver& cuda, Device device, unsigned other_physical);

/// Takes away all that was made in the context.
void empty_context(Driver& cuda, Context context);

}  // namespace isthmus::emulated
