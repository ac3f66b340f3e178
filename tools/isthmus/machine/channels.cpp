#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/plugin.hpp"
#include "base/settings.hpp"
#include "channel/network/port.hpp"
#include "machine/machine_facts.hpp"

namespace isthmus::tool {
namespace {

const Fact& fact(const Section& section, std::string_view key) {
  return *std::ranges::find(section.facts, key, &Fact::key);
}

bool yes(const Section& section, std::string_view key) {
  return fact(section, key).value == true;
}

/// "rc_verbs on mlx5_0:1; tcp on eth0, lo"
std::string transports_text(const std::vector<network::Inventory::Transport>& transports) {
  std::map<std::string, std::string> devices;
  for (const auto& [name, device] : transports)
    devices[name] += (devices[name].empty() ? " on " : ", ") + device;
  std::string text;
  for (const auto& [name, on] : devices)
    text += fmt::format("{}{}{}", text.empty() ? "" : "; ", name, on);
  return text.empty() ? "none" : text;
}

void add_network(Section& section) {
  const auto inventory = network::inventory(Settings{});
  if (!inventory) {
    section.add("network", "network (UCX)", nullptr, inventory.error().text());
    return;
  }
  Json transports = Json::array();
  for (const auto& [name, device] : inventory->transports)
    transports.push_back({{"transport", name}, {"device", device}});
  section.add("network", "network (UCX)", {{"library", inventory->library}, {"transports", transports}},
              fmt::format("{}: {}", inventory->library, transports_text(inventory->transports)));
}

}  // namespace

Section library_facts() {
  Section section{.key = "libraries", .title = "Libraries that are loaded when they are needed", .facts = {}};
  add_network(section);
  constexpr PluginObject pmix{.file = "libisthmus_pmix.so",
                              .symbol = "isthmus_pmix_plugin",
                              .role = "the library for launchers that speak PMIx",
                              .foreign = "PMIx",
                              .build_package = "libpmix-dev",
                              .run_package = "libpmix2"};
  const auto ranks = load_plugin(pmix);
  section.add("pmix", "PMIx", ranks.has_value(),
              ranks ? "loads: ranks of srun --mpi=pmix and of orterun" : ranks.error().text());
  return section;
}

Section channel_facts(const Section& permissions, const Section& devices, const Section& libraries) {
  Section section{.key = "channels", .title = "Channels on this host", .facts = {}};
  const bool region = yes(permissions, "memfd");
  const bool reads = yes(permissions, "process_vm_readv");
  const bool writes = yes(permissions, "process_vm_writev");
  section.add("self", true, "yes: messages of a rank to itself");
  section.add("shm", region,
              region ? "yes: rings in a memfd that mpiexec hands to its ranks"
                     : "no: " + fact(permissions, "memfd").text);
  section.add("cma", reads,
              reads && writes ? "yes: large messages are copied by both sides, half each"
              : reads         ? "in one direction: large messages are copied by the receiver"
                      : "no: large messages go through the rings, copied twice; see process_vm_readv above");
  const Json& shared = fact(devices, "ivshmem").value;
  const bool between_machines =
      std::ranges::any_of(shared, [](const Json& device) { return device.at("usable") == true; });
  section.add("ivshmem", between_machines,
              between_machines
                  ? "yes: rings in the memory of that device, with other virtual machines of this host"
                  : "no: no such device that can be used");
  const Json& network = fact(libraries, "network").value;
  const bool carries = network.is_object() && !network.at("transports").empty();
  section.add("network", carries,
              carries ? "yes: ranks that share no memory; isthmus explain tells the transport of each pair"
                      : "no: jobs on several hosts cannot run, nor containers that share no memory");
  return section;
}

}  // namespace isthmus::tool
