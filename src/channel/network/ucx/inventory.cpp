#include "channel/network/ucx/inventory.hpp"

#include <ucp/api/ucp.h>

#include <utility>

#include "channel/network/ucx/worker.hpp"

namespace isthmus::network {

Result<Inventory> inventory_of_ucx(const Settings& settings) {
  auto printed = UcxWorker::printed_transports(settings);
  if (!printed) return std::unexpected(std::move(printed).error());
  Inventory inventory{.library = std::string("UCX ") + ucp_get_version_string(), .transports = {}};
  // "#      resource 1  :  md 0  dev 1  flags -- tcp/eth0" for each
  for (std::size_t at = printed->find("resource "); at != std::string::npos;
       at = printed->find("resource ", at + 1)) {
    const std::string line = printed->substr(at, printed->find('\n', at) - at);
    const std::size_t name = line.rfind(' ') + 1;
    const std::size_t slash = line.find('/', name);
    if (slash != std::string::npos)
      inventory.transports.push_back({line.substr(name, slash - name), line.substr(slash + 1)});
  }
  return inventory;
}

}  // namespace isthmus::network
