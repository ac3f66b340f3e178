#pragma once

#include "base/error.hpp"
#include "base/settings.hpp"
#include "channel/network/port.hpp"

namespace isthmus::network {

/// As `network::inventory`.
Result<Inventory> inventory_of_ucx(const Settings& settings);

}  // namespace isthmus::network
