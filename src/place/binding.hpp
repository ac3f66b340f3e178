#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "place/cpu_set.hpp"
#include "place/topology.hpp"

namespace isthmus {

/// What each rank is confined to.
enum class BindTo : std::uint8_t {
  core,
  package,  ///< socket
  numa,
  none,
};

/// The order in which ranks are dealt out.
enum class MapBy : std::uint8_t {
  core,     ///< neighbouring ranks on neighbouring cores
  package,  ///< one rank to each socket in turn
  numa,     ///< one rank to each NUMA node in turn
};

/// Where one rank goes. Numbers are -1 for what it is not confined to.
struct Binding {
  int package = -1;
  int numa = -1;
  int core = -1;
  CpuSet cpus;  ///< empty: anywhere

  [[nodiscard]] std::string to_string() const;
};

/// The cores in the order in which ranks are dealt out to them.
std::vector<const Core*> deal_cores(const Topology& topology, MapBy map);

/// The place of a rank that got `core`.
Binding bind_around(const Topology& topology, const Core& core, BindTo to);

/// A place for each rank. Past the last core it begins again with the first.
std::vector<Binding> bind_ranks(const Topology& topology, std::uint32_t ranks, BindTo to, MapBy map);

/// For each rank that is bound to a core, processors of its NUMA node for threads that help it: cores that
/// no rank is bound to, dealt out in turn, at most `most` for a rank and `limit` for all.
std::vector<CpuSet> deal_spare(const Topology& topology, std::span<const Binding> ranks, std::size_t most,
                               std::size_t limit);

}  // namespace isthmus
