#include "channel/network/ucx/inventory.hpp"

#include <ucp/api/ucp.h>

#include <utility>

#include "channel/network/ucx/worker.hpp"

namespace isthmus::network {

Result<Inventory> inventory_of_ucx(const Settings& settings) {
  auto transports = UcxWorker::transports(settings);
  if (!transports) return std::unexpected(std::move(transports).error());
  return Inventory{.library = std::string("UCX ") + ucp_get_version_string(),
                   .transports = std::move(*transports)};
}

}  // namespace isthmus::network
