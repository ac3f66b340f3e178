#include "place/binding.hpp"

#include <algorithm>
#include <map>

namespace isthmus {
namespace {

/// All allowed hardware threads of the core's socket or NUMA node.
CpuSet cpus_around(const Topology& topology, const Core& center, int Core::* domain) {
  CpuSet set;
  for (const Core& core : topology.cores)
    if (core.*domain == center.*domain) set |= core.cpus;
  return set;
}

bool single(const Topology& topology, const CpuSet& cpus, int Core::* domain, int number) {
  return std::all_of(topology.cores.begin(), topology.cores.end(), [&](const Core& core) {
    CpuSet common = core.cpus;
    return (common &= cpus).empty() || core.*domain == number;
  });
}

}  // namespace

std::vector<const Core*> deal_cores(const Topology& topology, MapBy map) {
  std::map<int, std::vector<const Core*>> groups;
  for (const Core& core : topology.cores)
    groups[map == MapBy::package ? core.package : map == MapBy::numa ? core.numa : 0].push_back(&core);
  std::vector<const Core*> order;
  for (std::size_t round = 0; order.size() < topology.cores.size(); ++round)
    for (const auto& [number, group] : groups) {
      if (map == MapBy::core)
        order.insert(order.end(), group.begin(), group.end());
      else if (round < group.size())
        order.push_back(group[round]);
    }
  return order;
}

Binding bind_around(const Topology& topology, const Core& core, BindTo to) {
  Binding binding;
  if (to == BindTo::none) return binding;
  if (to == BindTo::core) return {core.package, core.numa, core.index, core.cpus};
  binding.cpus = cpus_around(topology, core, to == BindTo::package ? &Core::package : &Core::numa);
  if (single(topology, binding.cpus, &Core::package, core.package)) binding.package = core.package;
  if (single(topology, binding.cpus, &Core::numa, core.numa)) binding.numa = core.numa;
  return binding;
}

std::string Binding::to_string() const {
  if (cpus.empty()) return "not bound";
  std::string text;
  const auto add = [&](const char* what, int number) {
    if (number >= 0) text += (text.empty() ? "" : ", ") + std::string(what) + std::to_string(number);
  };
  add("core ", core);
  add("socket ", package);
  add("NUMA node ", numa);
  return text + (text.empty() ? "CPU " : ": CPU ") + cpus.to_string();
}

std::vector<Binding> bind_ranks(const Topology& topology, std::uint32_t ranks, BindTo to, MapBy map) {
  const std::vector<const Core*> order = deal_cores(topology, map);
  std::vector<Binding> bindings;
  bindings.reserve(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    bindings.push_back(bind_around(topology, *order[rank % order.size()], to));
  return bindings;
}

std::vector<CpuSet> deal_spare(const Topology& topology, std::span<const Binding> ranks, std::size_t most,
                               std::size_t limit) {
  std::vector<CpuSet> spare(ranks.size());
  std::map<int, std::vector<const Core*>> free;
  for (const Core& core : topology.cores)
    if (std::ranges::find(ranks, core.index, &Binding::core) == ranks.end()) free[core.numa].push_back(&core);
  for (std::size_t round = 0; round < most; ++round)
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      std::vector<const Core*>& near = free[ranks[rank].numa];
      if (ranks[rank].core < 0 || near.empty() || limit == 0) continue;
      spare[rank] |= near.front()->cpus;
      near.erase(near.begin());
      --limit;
    }
  return spare;
}

}  // namespace isthmus
