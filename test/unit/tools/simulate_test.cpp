// The simulator behind `isthmus simulate`, against what can be worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "simulate/costs.hpp"
#include "simulate/events.hpp"
#include "simulate/jacobi.hpp"

namespace isthmus::simulate::simulate_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Curve curve(std::vector<std::pair<double, double>> points) {
  return *Curve::make(std::move(points));
}

TEST(SimulateEvents, HappenInTheOrderOfTimeAndOfBeingSaid) {
  Events events;
  std::vector<int> order;
  events.at(2, [&] { order.push_back(3); });
  events.at(1, [&] {
    order.push_back(1);
    events.at(0, [&] { order.push_back(2); });  // what is past happens now
    events.at(2, [&] { order.push_back(4); });
  });
  EXPECT_EQ(events.run(), 4U);
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(events.now(), 2);
}

TEST(SimulateEvents, AMessageGoesRoundARingInNTimesItsTime) {
  const Curve cost = curve({{0, 3}, {1000, 5}});
  for (const int ranks : {2, 7, 64}) {
    Events events;
    std::vector<Link> out(static_cast<std::size_t>(ranks));
    int passed = 0;
    const std::function<void()> pass = [&] {
      if (passed == ranks) return;
      const double start = out[static_cast<std::size_t>(passed)].take(events.now(), cost.hold(500));
      ++passed;
      events.at(start + cost.at(500), pass);
    };
    pass();
    events.run();
    EXPECT_DOUBLE_EQ(events.now(), ranks * 4.0);
  }
}

TEST(SimulateEvents, MessagesOnOneLinkFollowEachOther) {
  // 3 us and 2 ns a byte: each holds the link for 2 us, and comes 5 us after it has got it.
  const Curve cost = curve({{0, 3}, {1000, 5}});
  Link link;
  double last = 0;
  for (int i = 0; i < 10; ++i)
    last = link.take(0, cost.hold(1000)) + cost.at(1000);
  EXPECT_DOUBLE_EQ(last, 9 * 2 + 5);
  EXPECT_DOUBLE_EQ(link.take(100, 4), 100);
}

TEST(SimulateCurve, IsStraightBetweenThePointsAndGoesOnBeyond) {
  const Curve cost = curve({{8, 1}, {1024, 2}, {2048, 4}});
  EXPECT_DOUBLE_EQ(cost.at(0), 1);
  EXPECT_DOUBLE_EQ(cost.at(8), 1);
  EXPECT_DOUBLE_EQ(cost.at(1536), 3);
  EXPECT_DOUBLE_EQ(cost.at(4096), 8);
  EXPECT_DOUBLE_EQ(cost.hold(1024), 2);  // not more than it takes
  EXPECT_DOUBLE_EQ(curve({{5, 7}}).at(1e9), 7);
  EXPECT_DOUBLE_EQ(Curve().at(5), 0);
  EXPECT_FALSE(Curve::make({}));
  EXPECT_FALSE(Curve::make({{1, 1}, {1, 2}}));
  EXPECT_FALSE(Curve::make({{1, -1}}));
}

Costs costs_of(Curve message) {
  Costs costs;
  costs.gpus_per_host = 1024;
  costs.adapters_per_host = 1024;
  costs.sweep = curve({{0, 10}, {1000, 110}});
  costs.ways.push_back({"direct", std::move(message), {}});
  return costs;
}

/// A reduction after each iteration, that takes no time: nobody is ahead of the others.
void begin_together(Costs& costs) {
  costs.allreduce = curve({{1, 0}});
  costs.residual_every = 1;
}

TEST(SimulateJacobi, OneGpuTakesItsSweep) {
  Costs costs = costs_of(curve({{0, 5}, {8000, 13}}));
  costs.overhead = 4;
  const Iteration found = Jacobi(costs, costs.ways[0], cube(1, 10)).run();
  EXPECT_NEAR(found.time, 114, 1e-9);
  EXPECT_NEAR(found.communication, 0, 1e-9);
}

TEST(SimulateJacobi, TwoGpusTakeTheirSweepAndOneMessage) {
  // Blocks of 10 x 10 x 5; faces of 100 points: 800 bytes, 5 us + 0.8 us.
  const Costs costs = costs_of(curve({{0, 5}, {8000, 13}}));
  const Iteration found = Jacobi(costs, costs.ways[0], cube(2, 10)).run();
  EXPECT_NEAR(found.time, 60 + 5.8, 1e-9);
  EXPECT_NEAR(found.communication, 5.8, 1e-9);
}

TEST(SimulateJacobi, PackingPostingAndReducingAreAdded) {
  Costs costs = costs_of(curve({{0, 5}, {8000, 13}}));
  costs.ways[0].faces = curve({{0, 2}, {100, 6}});
  costs.post = 1;
  costs.allreduce = curve({{2, 30}, {4, 60}});
  costs.residual_every = 4;
  const Iteration found = Jacobi(costs, costs.ways[0], cube(2, 10)).run(40);
  EXPECT_NEAR(found.time, 60 + 6 + 1 + 5.8 + 30.0 / 4, 1e-9);
}

TEST(SimulateJacobi, MessagesOfOneGpuShareItsPort) {
  // In a row of three the middle one sends two messages, which hold its port for 0.8 us each. All begin
  // together.
  Costs costs = costs_of(curve({{0, 5}, {8000, 13}}));
  begin_together(costs);
  std::vector<jacobi::Block> row;
  for (int i = 0; i < 3; ++i)
    row.push_back({.grid = {1, 1, 3}, .coords = {0, 0, i}, .size = {10, 10, 5}, .offset = {0, 0, 5 * i}});
  EXPECT_NEAR(Jacobi(costs, costs.ways[0], row).run().time, 60 + 5.8 + 0.8, 1e-9);
}

TEST(SimulateJacobi, HostsAreReachedByTheNetworkThroughTheirAdapters) {
  Costs costs = costs_of(curve({{0, 5}, {8000, 13}}));
  costs.ways[0].network = curve({{0, 20}, {8000, 36}});
  costs.gpus_per_host = 1;
  costs.adapters_per_host = 1;
  EXPECT_NEAR(Jacobi(costs, costs.ways[0], cube(2, 10)).run().time, 60 + 20 + 1.6, 1e-9);
  begin_together(costs);
  // Two hosts of two: two messages share the one adapter of each.
  costs.gpus_per_host = 2;
  std::vector<jacobi::Block> blocks;
  for (int i = 0; i < 4; ++i)
    blocks.push_back(
        {.grid = {2, 1, 2}, .coords = {i % 2, 0, i / 2}, .size = {10, 10, 5}, .offset = {0, 0, 0}});
  const double shared = Jacobi(costs, costs.ways[0], blocks).run().time;
  costs.adapters_per_host = 2;
  const double alone = Jacobi(costs, costs.ways[0], blocks).run().time;
  EXPECT_NEAR(shared - alone, 1.6, 1e-9);
}

TEST(SimulateJacobi, NeighboursAloneDecideNotHowManyThereAre) {
  // From 4 x 4 x 4 on the inner ones have six neighbours, and no further GPU makes a difference.
  Costs costs = costs_of(curve({{0, 5}, {8000, 13}}));
  begin_together(costs);
  const double inner = Jacobi(costs, costs.ways[0], equal_blocks(64, 10)).run().time;
  for (const int gpus : {512, 1000})
    EXPECT_NEAR(Jacobi(costs, costs.ways[0], equal_blocks(gpus, 10)).run().time, inner, 1e-9) << gpus;
}

TEST(SimulateJacobi, FreeMessagesScaleWeaklyWithoutLoss) {
  const Costs costs = costs_of(curve({{0, 0}}));
  const double one = Jacobi(costs, costs.ways[0], equal_blocks(1, 10)).run().time;
  for (const int gpus : {2, 12, 96, 512})
    EXPECT_NEAR(Jacobi(costs, costs.ways[0], equal_blocks(gpus, 10)).run().time, one, 1e-9) << gpus;
}

TEST(SimulateJacobi, TheSlowestBlockSetsThePace) {
  const Costs costs = costs_of(curve({{0, 0}}));
  // 11 points in 2 blocks: 6 and 5 of them along z.
  EXPECT_NEAR(Jacobi(costs, costs.ways[0], cube(2, 11)).run().time, 10 + 0.1 * 11 * 11 * 6, 1e-9);
}

constexpr auto well = R"({"name": "a pair", "gpus_per_host": 2, "sweep": [[0, 1], [1000, 2]],
  "ways": [{"name": "direct", "host": [[8, 2], [1048576, 10]]}],
  "measured": [{"way": "direct", "gpus": 2, "n": 10, "iteration": 4.5}]})";

TEST(SimulateCosts, AreRead) {
  const Result<Costs> costs = read_costs(well);
  ASSERT_TRUE(costs) << costs.error().text();
  EXPECT_EQ(costs->gpus_per_host, 2);
  EXPECT_EQ(costs->adapters_per_host, 2);
  EXPECT_EQ(costs->measured.size(), 1U);
  EXPECT_TRUE(costs->way("direct"));
  EXPECT_FALSE(costs->way("staged"));
}

TEST(SimulateCosts, ThatAreNoneAreNamed) {
  const auto why = [](const char* what, const char* instead) {
    std::string text = well;
    text.replace(text.find(what), std::string_view(what).size(), instead);
    const Result<Costs> costs = read_costs(text);
    return costs ? std::string("read") : costs.error().text();
  };
  EXPECT_EQ(why("a pair", "two"), "read");
  EXPECT_THAT(why("{\"name\"", "{"), HasSubstr("no JSON"));
  EXPECT_THAT(why("\"a pair\"", "7"), HasSubstr("\"name\" is no text"));
  EXPECT_THAT(why("\"sweep\"", "\"swept\""), HasSubstr("\"sweep\" is missing"));
  EXPECT_THAT(why("[1000, 2]", "[0, 2]"), HasSubstr("its sizes do not grow at point 2"));
  EXPECT_THAT(why("[1000, 2]", "[1000]"), HasSubstr("a point of \"sweep\" is not [size, microseconds]"));
  EXPECT_THAT(why("\"gpus_per_host\": 2", "\"gpus_per_host\": 0"),
              HasSubstr("\"gpus_per_host\" is 0, and not from 1"));
  EXPECT_THAT(why("\"gpus_per_host\": 2", "\"gpus_per_host\": \"2\""),
              HasSubstr("\"gpus_per_host\" is no number"));
  EXPECT_THAT(why("\"way\": \"direct\"", "\"way\": \"other\""), HasSubstr("measured by \"other\""));
  EXPECT_THAT(why("\"n\": 10, ", ""), HasSubstr("needs \"gpus\", \"n\" and \"iteration\""));
  EXPECT_THAT(why("\"iteration\": 4.5", "\"iteration\": -4.5"), HasSubstr("\"iteration\" is -4.5"));
  EXPECT_THAT(why("\"ways\"", "\"others\""), HasSubstr("there are no \"ways\""));
}

}  // namespace
}  // namespace isthmus::simulate::simulate_test
