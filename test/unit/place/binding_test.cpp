#include "place/binding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace isthmus::binding_test {
namespace {

using testing::ElementsAre;

/// Cores of one hardware thread each, so many to a NUMA node.
Topology machine(int cores, int to_a_node) {
  Topology topology;
  for (int i = 0; i < cores; ++i) {
    CpuSet cpus;
    cpus.insert(static_cast<unsigned>(i));
    topology.cpus |= cpus;
    topology.cores.push_back({.index = i, .package = i / to_a_node, .numa = i / to_a_node, .cpus = cpus});
  }
  return topology;
}

std::vector<std::string> spare(const Topology& topology, std::uint32_t ranks, BindTo to, MapBy map,
                               std::size_t most, std::size_t limit) {
  const auto bindings = bind_ranks(topology, ranks, to, map);
  std::vector<std::string> text;
  for (const CpuSet& each : deal_spare(topology, bindings, most, limit))
    text.push_back(each.to_string());
  return text;
}

TEST(SpareProcessors, AreDealtOutInTurnNearEachRank) {
  EXPECT_THAT(spare(machine(8, 8), 2, BindTo::core, MapBy::core, 3, 100), ElementsAre("2,4,6", "3,5,7"));
  EXPECT_THAT(spare(machine(8, 4), 2, BindTo::core, MapBy::numa, 2, 100), ElementsAre("1-2", "5-6"));
  EXPECT_THAT(spare(machine(8, 4), 3, BindTo::core, MapBy::core, 4, 100), ElementsAre("3", "none", "none"))
      << "the other node is far";
}

TEST(SpareProcessors, AreNoneWhereRanksHaveAllOrAreBoundToNoCore) {
  EXPECT_THAT(spare(machine(2, 2), 2, BindTo::core, MapBy::core, 4, 100), ElementsAre("none", "none"));
  EXPECT_THAT(spare(machine(8, 4), 2, BindTo::numa, MapBy::numa, 4, 100), ElementsAre("none", "none"));
  EXPECT_THAT(spare(machine(8, 4), 2, BindTo::none, MapBy::core, 4, 100), ElementsAre("none", "none"));
}

TEST(SpareProcessors, AreNoMoreThanWhatTheJobMayUse) {
  EXPECT_THAT(spare(machine(8, 8), 2, BindTo::core, MapBy::core, 4, 3), ElementsAre("2,4", "3"));
  EXPECT_THAT(spare(machine(8, 8), 2, BindTo::core, MapBy::core, 4, 0), ElementsAre("none", "none"));
}

}  // namespace
}  // namespace isthmus::binding_test
