#include <utility>

#include "base/plugin.hpp"
#include "channel/network/plugin.hpp"
#include "channel/network/port.hpp"

namespace isthmus::network {
namespace {

constexpr PluginObject object{.file = "libisthmus_network.so",
                              .symbol = plugin_symbol,
                              .role = "the network library",
                              .foreign = "UCX",
                              .build_package = "libucx-dev",
                              .run_package = "libucx0"};

Result<const Plugin*> load() {
  auto symbol = load_plugin(object);
  if (!symbol) return std::unexpected(std::move(symbol).error());
  const auto* plugin = static_cast<const Plugin*>(*symbol);
  if (plugin->version != interface_version || plugin->settings_bytes != sizeof(Settings))
    return foreign_plugin(object);
  return plugin;
}

}  // namespace

Result<std::unique_ptr<Port>> open(const Settings& settings, Identity self, Events& events) {
  auto plugin = load();
  if (!plugin) return std::unexpected(std::move(plugin).error());
  return (*plugin)->open(settings, self, events);
}

Result<Inventory> inventory(const Settings& settings) {
  auto plugin = load();
  if (!plugin) return std::unexpected(std::move(plugin).error());
  return (*plugin)->inventory(settings);
}

}  // namespace isthmus::network
