#include <string>
#include <utility>

#include "base/plugin.hpp"
#include "base/system/open_files.hpp"
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

/// Descriptors that a job's peers may need here: two watch lines each, and what UCX opens.
constexpr rlim_t files_for_each_peer = 8;
constexpr rlim_t files_besides = 256;
/// Without so many UCX ends the process, by assertions of its own (1.13: with 4 to 8 left at its start, and
/// with up to 22 when the first peer connects).
constexpr unsigned fewest_files = 32;

Result<> make_room_for_files(PeerId ranks) {
  allow_open_files(files_besides + files_for_each_peer * ranks);
  if (can_open_files(fewest_files)) return {};
  return std::unexpected(too_few_files(fewest_files, "the network needs"));
}

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
  ISTHMUS_TRY(make_room_for_files(self.ranks));
  return (*plugin)->open(settings, self, events);
}

Result<Inventory> inventory(const Settings& settings) {
  auto plugin = load();
  if (!plugin) return std::unexpected(std::move(plugin).error());
  return (*plugin)->inventory(settings);
}

}  // namespace isthmus::network
