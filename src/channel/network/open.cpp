#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "base/plugin.hpp"
#include "base/system/open_files.hpp"
#include "channel/network/adapters.hpp"
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

/// While UCX is loaded, unless the user says otherwise or there is an adapter, it is told to leave the
/// program's memory alone. For its caches of what adapters have pinned it writes jumps into brk, munmap and
/// others as soon as it is loaded, where it reads the variable. With these, 5 of 108 runs of a program with
/// threads (`gpu_streams` on two hosts) ended by SIGSEGV in memory that malloc had just given, and without
/// them none of 100 (UCX 1.13).
class NoMemoryHooks {
 public:
  NoMemoryHooks() : is_set_(!is_loaded() && !has_adapter() && std::getenv(variable) == nullptr) {
    if (is_set_) ::setenv(variable, "n", 1);
  }
  NoMemoryHooks(const NoMemoryHooks&) = delete;
  NoMemoryHooks& operator=(const NoMemoryHooks&) = delete;
  ~NoMemoryHooks() {
    if (is_set_) ::unsetenv(variable);
  }

 private:
  /// Then it has read its variables: threads of other ranks may be reading the environment.
  static bool is_loaded() {
    void* const library = ::dlopen("libucm.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (library) ::dlclose(library);
    return library != nullptr;
  }

  static constexpr const char* variable = "UCX_MEM_EVENTS";
  const bool is_set_;
};

Result<const Plugin*> load() {
  auto symbol = [] {
    // One rank of a process after the other: the environment is the process's.
    static std::mutex mutex;
    const std::scoped_lock lock(mutex);
    const NoMemoryHooks none;
    return load_plugin(object);
  }();
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
