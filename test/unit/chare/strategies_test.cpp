// Who is moved where, and by how much that helps.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "chare/strategies.hpp"

namespace isthmus::chare::strategies_test {
namespace {

Load load_of(std::uint64_t index, double seconds, std::uint32_t rank, bool is_fixed = false) {
  return {.index = {index, 0},
          .seconds = seconds,
          .rank = rank,
          .to = 77,
          .is_fixed = is_fixed ? 1U : 0U,
          .unused = 0};
}
double largest(const std::vector<Load>& loads, std::uint32_t processes) {
  std::vector<double> sums(processes);
  for (const Load& each : loads)
    sums.at(each.to) += each.seconds;
  return std::ranges::max(sums);
}
std::int64_t moves(const std::vector<Load>& loads) {
  return std::ranges::count_if(loads, [](const Load& each) { return each.to != each.rank; });
}
/// 64 chares in blocks, the first half of which have 4 times the work.
std::vector<Load> halves(std::uint32_t processes) {
  std::vector<Load> loads;
  for (std::uint32_t i = 0; i < 64; ++i)
    loads.push_back(load_of(i, i < 32 ? 4 : 1, i * processes / 64));
  return loads;
}

TEST(ChareStrategies, BringUnequalHalvesToTheMean) {
  for (const std::uint32_t processes : {1U, 2U, 4U, 8U}) {
    auto loads = halves(processes);
    place_greedily(loads, processes);
    EXPECT_DOUBLE_EQ(largest(loads, processes), 160.0 / processes);
    loads = halves(processes);
    refine(loads, processes);
    EXPECT_DOUBLE_EQ(largest(loads, processes), 160.0 / processes);
  }
  auto loads = halves(2);
  refine(loads, 2);
  EXPECT_EQ(moves(loads), 12);  // 48 of the 128 that the first has
}

TEST(ChareStrategies, LeaveAloneWhatIsEven) {
  std::vector<Load> loads;
  for (std::uint32_t i = 0; i < 40; ++i)
    loads.push_back(load_of(i, 1, i % 4));
  refine(loads, 4);
  EXPECT_EQ(moves(loads), 0);
  place_greedily(loads, 4);
  EXPECT_EQ(moves(loads), 0);
}

TEST(ChareStrategies, NeverMoveWhatIsFixedAndCountIt) {
  std::vector<Load> loads{load_of(0, 10, 0, true), load_of(1, 5, 0), load_of(2, 5, 0),
                          load_of(3, 1, 1, true)};
  auto refined = loads;
  refine(refined, 2);
  place_greedily(loads, 2);
  for (const auto& placed : {loads, refined}) {
    EXPECT_EQ(placed[0].to, 0);
    EXPECT_EQ(placed[3].to, 1);
    EXPECT_DOUBLE_EQ(largest(placed, 2), 11);
  }
}

TEST(ChareStrategies, TakeNothingAtAll) {
  std::vector<Load> none;
  place_greedily(none, 3);
  refine(none, 3);
  std::vector<Load> idle{load_of(0, 0, 2), load_of(1, 0, 2)};
  place_greedily(idle, 3);
  EXPECT_EQ(moves(idle), 0);
  refine(idle, 3);
  EXPECT_EQ(moves(idle), 0);
}

TEST(ChareStrategies, NeverMakeItWorseAndGreedyIsNearTheBest) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t processes = 1 + random() % 9;
    std::vector<Load> loads;
    double all = 0;
    double heaviest = 0;
    const std::uint64_t count = random() % 60;
    for (std::uint64_t i = 0; i < count; ++i) {
      const double seconds = static_cast<double>(random() % 1000) / 7;
      loads.push_back(load_of(i, seconds, static_cast<std::uint32_t>(random() % processes)));
      all += seconds;
      heaviest = std::max(heaviest, seconds);
    }
    for (Load& each : loads)
      each.to = each.rank;
    const double before = largest(loads, processes);
    refine(loads, processes);
    EXPECT_LE(largest(loads, processes), before + 1e-9);
    // Each chare is light enough against the gap that one of them closes it, or none of them would help.
    EXPECT_LE(largest(loads, processes), std::max(1.02 * all / processes, all / processes + heaviest) + 1e-9);
    place_greedily(loads, processes);
    EXPECT_LE(largest(loads, processes), all / processes + heaviest + 1e-9);
  }
}

}  // namespace
}  // namespace isthmus::chare::strategies_test
