#pragma once

#include <isthmus/device_view.h>

#include "carry/order.hpp"

namespace isthmus::device {

/// What the proxy sends for a kernel's request. Numbers that mean nothing stay as they are: who is told
/// checks.
[[nodiscard]] carry::Order order_of(const isthmus_device_request& request);

}  // namespace isthmus::device
