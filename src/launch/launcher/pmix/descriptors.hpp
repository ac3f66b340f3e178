#pragma once

#include <set>

namespace isthmus::launch {

/// The descriptors of this process that are open now and that programs it starts would inherit.
std::set<int> inheritable_descriptors();

/// Makes those that are not in `before` close-on-exec: libpmix leaves its socket to the server open to
/// children.
void keep_new_descriptors(const std::set<int>& before);

}  // namespace isthmus::launch
