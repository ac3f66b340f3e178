// What a process keeps of checkpoints in memory, and what those who live make of it after a loss. The runs
// with processes that are killed are in test/chare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "chare/checkpoint/memory_checkpoint.hpp"

namespace isthmus::chare::memory_checkpoint_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MemoryPart part_of(std::uint32_t writer, const std::vector<std::string>& chares) {
  std::uint64_t bytes = 0;
  for (const std::string& each : chares)
    bytes += MemoryPartWriter::size_of(each.size());
  MemoryPartWriter made(MemoryCheckpoints().take(writer, bytes));
  for (std::uint64_t i = 0; i < chares.size(); ++i) {
    std::byte* const at = made.add({.checksum = 0,
                                    .bytes = chares[i].size(),
                                    .collection = 1,
                                    .index = {i, 0},
                                    .load = 0,
                                    .has_own_load = 0});
    EXPECT_TRUE(at);
    std::memcpy(at, chares[i].data(), chares[i].size());
  }
  return std::move(made).finish();
}
Result<std::vector<std::string>> read(const MemoryPart& part) {
  std::vector<std::string> texts;
  const Result<> done = for_each_chare(part, [&](const SavedChare&, std::span<const std::byte> data) {
    texts.emplace_back(reinterpret_cast<const char*>(data.data()), data.size());
    return Result<>();
  });
  if (!done) return std::unexpected(Error(done.error().error_class(), done.error().text()));
  return texts;
}
MemoryHead head_of(std::uint32_t writers) {
  MemoryHead head;
  head.head.parts.resize(writers);
  for (std::uint32_t i = 0; i < writers; ++i) {
    head.ranks.push_back(i);
    head.buddies.push_back((i + 1) % writers);
    head.nodes.push_back(i / 2);
  }
  return head;
}

TEST(ChareMemoryPart, IsReadAsItWasWritten) {
  const std::vector<std::string> texts{"", "a", std::string(100, 'x'), "sixteen bytes...", ""};
  const Result<std::vector<std::string>> found = read(part_of(3, texts));
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, texts);
  EXPECT_TRUE(read(part_of(0, {}))->empty());
}

TEST(ChareMemoryPart, AChareThatHasBecomeLongerGetsNoRoom) {
  MemoryPartWriter writer(MemoryCheckpoints().take(0, MemoryPartWriter::size_of(8)));
  EXPECT_FALSE(
      writer.add({.checksum = 0, .bytes = 100, .collection = 1, .index = {}, .load = 0, .has_own_load = 0}));
  EXPECT_TRUE(
      writer.add({.checksum = 0, .bytes = 8, .collection = 1, .index = {}, .load = 0, .has_own_load = 0}));
  EXPECT_FALSE(
      writer.add({.checksum = 0, .bytes = 0, .collection = 1, .index = {}, .load = 0, .has_own_load = 0}));
}

TEST(ChareMemoryPart, NoBytesOfAPeerMakeAReaderLeaveIt) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 5000; ++round) {
    MemoryPart part = part_of(1, {"one", "two and more", "three"});
    // Lengths above all: the second word of what is in front of each.
    for (int i = 0; i < 3; ++i)
      part.data[random() % part.bytes] = static_cast<std::byte>(random());
    if (round % 2 == 0) part.bytes = random() % (part.bytes + 1);
    const Result<> done = for_each_chare(part, [&](const SavedChare&, std::span<const std::byte> data) {
      EXPECT_TRUE(data.data() >= part.data.get() &&
                  data.data() + data.size() <= part.data.get() + part.bytes);
      return Result<>();
    });
    if (!done) {
      EXPECT_THAT(done.error().text(), HasSubstr("of the part of writer 1"));
    }
  }
}

TEST(ChareMemoryCheckpoints, TheOlderOneHoldsUntilTheNewOneIsCommitted) {
  MemoryCheckpoints all;
  EXPECT_TRUE(all.is_empty());
  all.begin(1);
  EXPECT_TRUE(all.keep(1, part_of(0, {"a"})));
  EXPECT_TRUE(all.keep(1, part_of(1, {"b"})));
  EXPECT_FALSE(all.is_empty());
  EXPECT_EQ(all.holdings().committed, 0U);
  EXPECT_TRUE(all.commit(1, head_of(2)));
  all.begin(2);
  EXPECT_TRUE(all.keep(2, part_of(0, {"c"})));
  EXPECT_EQ(all.holdings().committed, 1U);
  EXPECT_EQ(all.holdings().pending, 2U);
  EXPECT_THAT(all.holdings().committed_parts, ElementsAre(0, 1));
  EXPECT_THAT(all.holdings().pending_parts, ElementsAre(0));
  all.drop(2);
  EXPECT_EQ(all.holdings().pending, 0U);
  EXPECT_EQ(read(all.parts()[0])->front(), "a");
  all.begin(3);
  EXPECT_TRUE(all.keep(3, part_of(0, {"d"})));
  EXPECT_TRUE(all.commit(3, head_of(2)));
  EXPECT_EQ(read(all.parts()[0])->front(), "d");
  EXPECT_EQ(all.bytes(), MemoryPartWriter::size_of(1));
}

TEST(ChareMemoryCheckpoints, ACopyMayComeBeforeTheOrderToWrite) {
  MemoryCheckpoints all;
  EXPECT_TRUE(all.keep(4, part_of(1, {"b"})));
  all.begin(4);
  EXPECT_TRUE(all.keep(4, part_of(0, {"a"})));
  EXPECT_THAT(all.holdings().pending_parts, ElementsAre(1, 0));
}

TEST(ChareMemoryCheckpoints, MemoryOfTheOneBeforeTheLastIsUsedAgainIfItFitsAndNobodySendsFromIt) {
  MemoryCheckpoints all;
  const auto write = [&](std::uint64_t generation, std::uint64_t bytes) {
    all.begin(generation);
    MemoryPart part = all.take(0, bytes);
    const std::byte* const at = part.data.get();
    EXPECT_TRUE(all.keep(generation, std::move(part)));
    EXPECT_TRUE(all.commit(generation, head_of(1)));
    return at;
  };
  const std::byte* const first = write(1, 1000);
  const std::byte* const second = write(2, 1000);
  EXPECT_NE(first, second);
  EXPECT_EQ(write(3, 900), first);
  EXPECT_EQ(all.bytes(), 900U);
  {
    const MemoryPart sent = all.parts()[0];
    EXPECT_EQ(write(4, 1000), second);
    EXPECT_NE(write(5, 900), first);
    EXPECT_EQ(sent.data.get(), first);
  }
  // Too large by far, and too small.
  EXPECT_NE(write(6, 100), second);
  const MemoryPart part = all.take(0, 5000);
  EXPECT_EQ(part.capacity, 5000U);
}

TEST(ChareMemoryCheckpoints, WhatDoesNotFitIsRefused) {
  MemoryCheckpoints all;
  all.begin(2);
  EXPECT_FALSE(all.keep(1, part_of(0, {"late"})));
  EXPECT_TRUE(all.keep(2, part_of(0, {"a"})));
  EXPECT_FALSE(all.keep(2, part_of(0, {"twice"})));
  EXPECT_FALSE(all.commit(1, head_of(1)));
  EXPECT_FALSE(all.commit(0, head_of(1)));
  EXPECT_EQ(all.holdings().pending, 2U);
}

// --- after a loss

TEST(ChareRecovery, GoesBackToTheLatestThatOneHasHeardToBeCommitted) {
  // All have their parts of 6; one alone has heard that it is committed.
  const std::vector<Holdings> all{
      {.committed = 5, .pending = 6, .committed_parts = {0, 2}, .pending_parts = {0, 2}},
      {.committed = 6, .pending = 0, .committed_parts = {1, 0}, .pending_parts = {}}};
  const Choice choice = choose_checkpoint(all);
  EXPECT_EQ(choice.generation, 6U);
  EXPECT_EQ(choice.knows_head, 1U);
  const std::uint32_t ranks[] = {0, 1};
  const auto holders = find_holders(head_of(3), 6, all, ranks);
  ASSERT_TRUE(holders);
  EXPECT_THAT(*holders, ElementsAre(0, 1, 0));
}

TEST(ChareRecovery, NobodyHasHeardOfANewOneThenTheOlderOneHolds) {
  const std::vector<Holdings> all{
      {.committed = 5, .pending = 6, .committed_parts = {0, 2}, .pending_parts = {0}},
      {.committed = 5, .pending = 6, .committed_parts = {1, 0}, .pending_parts = {1, 0}}};
  EXPECT_EQ(choose_checkpoint(all).generation, 5U);
  const std::vector<Holdings> none{
      {.committed = 0, .pending = 1, .committed_parts = {}, .pending_parts = {0}}};
  EXPECT_EQ(choose_checkpoint(none).generation, 0U);
}

TEST(ChareRecovery, WhoeverHasWrittenAPartHandsItOutIfItLives) {
  const std::vector<Holdings> all{
      {.committed = 1, .pending = 0, .committed_parts = {0, 2}, .pending_parts = {}},
      {.committed = 1, .pending = 0, .committed_parts = {2, 1}, .pending_parts = {}}};
  const std::uint32_t ranks[] = {0, 2};
  EXPECT_THAT(*find_holders(head_of(3), 1, all, ranks), ElementsAre(0, 1, 1));
}

TEST(ChareRecovery, ThoseWhosePartNobodyHasAreNamed) {
  const std::vector<Holdings> all{
      {.committed = 1, .pending = 0, .committed_parts = {0, 3}, .pending_parts = {}}};
  const std::uint32_t ranks[] = {0};
  const auto holders = find_holders(head_of(4), 1, all, ranks);
  ASSERT_FALSE(holders);
  EXPECT_THAT(holders.error().text(),
              HasSubstr("those of rank 1, of which rank 2 kept the copy, those of rank 2, "
                        "of which rank 3 kept the copy"));
  MemoryHead head = head_of(2);
  head.buddies.clear();
  EXPECT_FALSE(find_holders(head, 1, all, ranks));
}

TEST(ChareRecovery, WhatOneAloneKeepsGoesToAnother) {
  // Four wrote; rank 1 has died, who kept what rank 0 wrote, and whose own rank 2 keeps.
  const Holdings all[] = {{.committed = 2, .pending = 0, .committed_parts = {0, 3}, .pending_parts = {}},
                          {.committed = 2, .pending = 0, .committed_parts = {2, 1}, .pending_parts = {}},
                          {.committed = 1, .pending = 2, .committed_parts = {}, .pending_parts = {3, 2}}};
  const auto missing = [&](std::span<const Holdings> holdings, std::vector<std::uint32_t> nodes) {
    std::string text;
    for (const MissingCopy& each : find_missing_copies(head_of(4), 2, holdings, nodes))
      text +=
          std::to_string(each.writer) + ":" + std::to_string(each.from) + ">" + std::to_string(each.to) + " ";
    return text;
  };
  EXPECT_EQ(missing(all, {0, 0, 0}), "0:0>1 1:1>2 ");
  // To another node, where there is one.
  EXPECT_EQ(missing(all, {0, 0, 2}), "0:0>2 1:1>2 ");
  EXPECT_EQ(missing(std::span(all, 1), {0}), "") << "nobody else lives";
  const Holdings twice[] = {
      {.committed = 2, .pending = 0, .committed_parts = {0, 1, 2, 3}, .pending_parts = {}},
      {.committed = 2, .pending = 0, .committed_parts = {0, 1, 2, 3}, .pending_parts = {}}};
  EXPECT_EQ(missing(twice, {0, 0}), "");
}

TEST(ChareMemoryCheckpoints, ACopyThatComesLaterIsKeptAndSaid) {
  MemoryCheckpoints kept;
  ASSERT_TRUE(kept.keep(1, kept.take(0, 10)));
  ASSERT_TRUE(kept.commit(1, head_of(4)));
  kept.keep_copy(kept.take(3, 20));
  kept.note_keeper(3, 9);
  kept.note_keeper(7, 9);  // nobody's
  EXPECT_THAT(kept.holdings().committed_parts, ElementsAre(0, 3));
  EXPECT_EQ(kept.bytes(), 30U);
  EXPECT_EQ(kept.head().buddies[3], 9U);
  EXPECT_EQ(kept.head().buddies.size(), 4U);
}

TEST(ChareRecovery, WhoHadNoCharesTakesThePlaceOfTheDead) {
  const auto order = [](const std::vector<std::uint32_t>& ranks) {
    return order_survivors(head_of(4), ranks);
  };
  EXPECT_THAT(order({0, 1, 2, 3}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(order({0, 2, 3}), ElementsAre(0, 1, 2));
  EXPECT_THAT(order({0, 1, 2, 3, 4, 5}), ElementsAre(0, 1, 2, 3, 4, 5));
  // 4 goes where 1 was, and 5 where 2 was.
  EXPECT_THAT(order({0, 2, 3, 4, 5}), ElementsAre(0, 3, 1, 2, 4));
  EXPECT_THAT(order({0, 3, 4, 5}), ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(order({3, 4}), ElementsAre(1, 0));
  EXPECT_THAT(order({4, 5, 6, 7, 8}), ElementsAre(0, 1, 2, 3, 4));
}

TEST(ChareRecovery, ANodeGoesOnAsThatOfItsProcesses) {
  // Four processes on two nodes; `keys` of those who live.
  const auto before = [](const std::vector<std::uint32_t>& ranks, const std::vector<std::uint32_t>& keys) {
    return nodes_before(head_of(4), ranks, Nodes(keys, static_cast<std::uint32_t>(keys.size())));
  };
  EXPECT_THAT(before({0, 1, 2, 3}, {0, 0, 2, 2}), ElementsAre(0, 1));
  EXPECT_THAT(before({1, 2, 3}, {1, 2, 2}), ElementsAre(0, 1));
  EXPECT_THAT(before({2, 3}, {2, 2}), ElementsAre(1));
  // Another node, which had no chares, goes on as the one that is no more, or has a copy.
  EXPECT_THAT(before({4, 5, 2, 3}, {4, 4, 2, 2}), ElementsAre(0, 1));
  EXPECT_THAT(before({0, 4, 2, 3}, {0, 4, 2, 2}), ElementsAre(0, 1, 1));
}

TEST(ChareBuddy, IsAnotherProcessAndOnAnotherNodeIfThereIsOne) {
  for (const std::vector<std::uint32_t>& nodes : std::vector<std::vector<std::uint32_t>>{
           {0, 0}, {0, 0, 0, 0, 0}, {0, 1}, {0, 0, 2, 2}, {0, 1, 0, 1, 0}, {0, 0, 0, 3}, {5, 5, 0, 0, 2}}) {
    const bool has_others = std::ranges::any_of(nodes, [&](std::uint32_t each) { return each != nodes[0]; });
    for (std::uint32_t rank = 0; rank < nodes.size(); ++rank) {
      const std::uint32_t buddy = buddy_of(rank, nodes);
      ASSERT_LT(buddy, nodes.size());
      EXPECT_NE(buddy, rank);
      EXPECT_EQ(nodes[buddy] != nodes[rank], has_others) << rank;
    }
  }
  // As evenly as the nodes are.
  const std::vector<std::uint32_t> even{0, 0, 2, 2};
  EXPECT_EQ(buddy_of(0, even), 2U);
  EXPECT_EQ(buddy_of(1, even), 3U);
  EXPECT_EQ(buddy_of(2, even), 0U);
  EXPECT_EQ(buddy_of(3, even), 1U);
}

}  // namespace
}  // namespace isthmus::chare::memory_checkpoint_test
