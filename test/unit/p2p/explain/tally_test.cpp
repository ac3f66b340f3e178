#include "p2p/explain/tally.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <set>
#include <string>

#include "p2p/explain/rank_set.hpp"

namespace isthmus::tally_test {
namespace {

using testing::HasSubstr;
using testing::Not;

RankSet set_of(const std::set<std::uint32_t>& ranks) {
  RankSet set;
  for (const std::uint32_t rank : ranks)
    set.add(rank);
  return set;
}

TEST(RankSet, IsWrittenAsRunsAndReadAgain) {
  const RankSet set = set_of({0, 1, 4, 5, 6, 9});
  EXPECT_EQ(set.text(), "0, 1, 4-6, 9");
  EXPECT_EQ(RankSet::parse("0, 1, 4-6, 9", 10), set);
  EXPECT_EQ(set.size(), 6U);
  EXPECT_EQ(set.complement(11).text(), "2, 3, 7, 8, 10");
  EXPECT_EQ(set.complement(10).complement(10), set);
  EXPECT_EQ(set.first_but(0), 1U);
  EXPECT_EQ(set_of({3, 7}).first_but(3), 7U);
  EXPECT_EQ(RankSet::parse("", 4), RankSet());
}

TEST(RankSet, TakesNoTextThatIsNone) {
  for (const char* wrong : {"10", "3-", "-3", "3-2", "3, 2", "1,2", "1, ", "a", "1-2-3", "4, 4", " 1", "1 "})
    EXPECT_EQ(RankSet::parse(wrong, 10), std::nullopt) << wrong;
}

TEST(RankSet, HoldsWhatWasAddedInAnyOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::set<std::uint32_t> expected;
    RankSet set;
    for (int i = 0; i < 40; ++i) {
      const std::uint32_t rank = random() % 64;
      expected.insert(rank);
      set.add(rank);
    }
    ASSERT_EQ(set.size(), expected.size());
    std::set<std::uint32_t> found;
    set.for_each([&](std::uint32_t rank) { found.insert(rank); });
    ASSERT_EQ(found, expected);
    for (std::uint32_t rank = 0; rank < 64; ++rank)
      ASSERT_EQ(set.contains(rank), expected.contains(rank));
    ASSERT_EQ(RankSet::parse(set.text(), 64), set);
  }
}

/// The summary of a job in which `plan_of(receiver, sender)` says which ways messages take.
std::string summary(std::uint32_t size,
                    const std::function<std::string(std::uint32_t, std::uint32_t)>& plan_of) {
  JobTally job(size);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    RankTally tally;
    for (std::uint32_t peer = 0; peer < size; ++peer)
      if (peer != rank) tally.add_plan(plan_of(rank, peer), peer);
    job.add(rank, tally.packed());
  }
  return job.text();
}

TEST(Tally, FoldsPairsThatAreAlike) {
  EXPECT_THAT(summary(2, [](auto, auto) { return "ring"; }),
              HasSubstr("    between both ranks\n      ring\n"));
  EXPECT_THAT(summary(64, [](auto, auto) { return "ring\nmore"; }),
              HasSubstr("    between any two of all 64 ranks\n      ring\n      more\n"));
  const auto hosts_of = [](std::uint32_t ranks) {
    return
        [=](std::uint32_t to, std::uint32_t from) { return to / ranks == from / ranks ? "ring" : "network"; };
  };
  EXPECT_THAT(summary(8, hosts_of(4)),
              testing::AllOf(HasSubstr("    within each of 2 groups of ranks: 0-3; 4-7\n      ring\n"),
                             HasSubstr("    between ranks 0-3 and ranks 4-7\n      network\n")));
  EXPECT_THAT(
      summary(24, hosts_of(4)),
      testing::AllOf(HasSubstr("within each of 6 groups of ranks: 0-3; 4-7; 8-11; 12-15 and 2 more\n"),
                     HasSubstr("between 6 groups of ranks: 0-3; 4-7; 8-11; 12-15 and 2 more\n")));
}

TEST(Tally, SaysOfGroupsOfOneRankWhoTheyAre) {
  const std::string text = summary(
      5, [](std::uint32_t to, std::uint32_t from) { return to >= 3 && from >= 3 ? "ring" : "network"; });
  EXPECT_THAT(text, HasSubstr("    between any two of ranks 3, 4\n      ring\n"));
  EXPECT_THAT(text, HasSubstr("    between 4 groups of ranks: 0; 1; 2; 3, 4\n      network\n"));
}

TEST(Tally, CountsPairsThatAreNoGroups) {
  const std::string text =
      summary(6, [](std::uint32_t to, std::uint32_t from) { return to == 1 && from == 4 ? "odd" : "ring"; });
  EXPECT_THAT(text, HasSubstr("    for 1 pair, such as from rank 4 to rank 1\n      odd\n"));
  EXPECT_THAT(text, HasSubstr("    for 29 pairs, such as from rank "));
}

TEST(Tally, FitsOnAScreenForManyKindsOfPairs) {
  const std::string text =
      summary(40, [](std::uint32_t to, std::uint32_t from) { return std::to_string((to * 40 + from) % 97); });
  EXPECT_LE(std::ranges::count(text, '\n'), 12) << text;
  EXPECT_THAT(text, HasSubstr("      and 93 more kinds of pairs\n"));
}

TEST(Tally, SumsWhatWasSentAndRefused) {
  JobTally job(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    RankTally tally;
    tally.add(TallyKind::way, "eager", {.messages = 3, .bytes = 24});
    tally.add(TallyKind::way, "ring", {.messages = 1, .bytes = 1000});
    for (std::uint32_t peer = 0; peer < 3; ++peer)
      if (peer != rank) tally.add_refusal("reading: no", "a remedy", peer, 512);
    tally.add(TallyKind::collectives, "between GPUs", {.messages = 2});
    if (rank == 1) tally.add(TallyKind::note, "a word", {});
    job.add(rank, tally.packed());
  }
  const std::string text = job.text();
  EXPECT_THAT(text, HasSubstr("    all ranks together: 12 messages, 3.0 KiB\n"));
  EXPECT_THAT(text, testing::ContainsRegex("      ring +25.0 % of messages, +97.7 % of bytes \\(2.9 KiB\\), "
                                           "time not known\n"
                                           "      eager +75.0 % of messages, +2.3 % of bytes \\(72 B\\), "
                                           "time not known\n"));
  EXPECT_THAT(text, HasSubstr("    refused: reading: no\n"
                              "      between any two of all 3 ranks; 3.0 KiB went a slower way\n"
                              "      what helps: a remedy\n"));
  EXPECT_THAT(text, HasSubstr("counted by each rank: 6 between GPUs\n"));
  EXPECT_THAT(text, HasSubstr("    a word (rank 1)\n"));
  EXPECT_THAT(JobTally(3).text(), HasSubstr("no messages were sent"));
}

TEST(Tally, SharesOutTheTimeThatWasMeasuredAndWhatIsEstimatedForTheRest) {
  JobTally job(2);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    RankTally tally;
    tally.add(TallyKind::way, "ring", {.messages = 1, .bytes = 1 << 20, .nanoseconds = 300'000});
    tally.add(TallyKind::way, "eager", {.messages = 100, .bytes = 50'000});
    tally.add(TallyKind::way, "other", {.messages = 1, .bytes = 8});
    job.add(rank, tally.packed());
  }
  job.estimate({{.way = "eager", .microseconds = 0.5, .per_byte = 0.001},
                {.way = "ring", .microseconds = 1e6, .per_byte = 1e6}});
  const std::string text = job.text();
  EXPECT_THAT(text, HasSubstr("2.1 MiB, under way for 800 us\n"));
  EXPECT_THAT(text, testing::ContainsRegex("      ring .*, +75.0 % of time \\(600 us\\)\n"));
  EXPECT_THAT(text, testing::ContainsRegex("      eager .*, +25.0 % of time \\(200 us, estimated\\)\n"));
  EXPECT_THAT(text, testing::ContainsRegex("      other .*, time not known\n"));
}

TEST(Tally, LeavesOutWhatIsNoTally) {
  JobTally job(4);
  RankTally tally;
  tally.add(TallyKind::way, "tab\tand\x1b[31m", {.messages = 1, .bytes = 1});
  job.add(0, tally.packed());
  for (const char* wrong :
       {"w\t1\t1\t0\t\tway", "w\t-1\t1\t0\t\tway\t", "w\tx\t1\t0\t\tway\t", "w\t1\t1\tx\t\tway\t",
        "w\t1\t1\t\tway\t", "q\t1\t1\t0\t\tway\t", "\n\n\t\t\t\t\t\t\n", "p\t0\t0\t0\t0-9\tplan\t",
        "p\t0\t0\t0\t2-1\tplan\t", "w\t1\t1\t0\t\tway\t\t"})
    job.add(1, wrong);
  const std::string text = job.text();
  EXPECT_THAT(text, HasSubstr("all ranks together: 1 message, 1 B\n"));
  EXPECT_THAT(text,
              testing::AllOf(HasSubstr("tab and [31m"), Not(HasSubstr("way\n")), Not(HasSubstr("plan"))));
}

}  // namespace
}  // namespace isthmus::tally_test
