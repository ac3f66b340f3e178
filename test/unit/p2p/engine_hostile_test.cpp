// An engine whose peer writes what no honest rank writes: it neither crashes nor hangs nor obeys.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "engine_hostile.hpp"
#include "wire/gpu.hpp"

namespace isthmus::engine_hostile_test {
namespace {

using testing_hostile::Child;
using testing_hostile::EngineHostile;

TEST_F(EngineHostile, MalformedCellsAreDroppedAndWhatFollowsArrives) {
  Request* receive = start_receive(4);
  write(wire::CellKind{77}, 0);
  write(wire::CellKind::eager_inline, 0, 33);
  write(wire::CellKind::eager_inline, 0, 4, -1);
  write(wire::CellKind::eager_inline, 0, 4, 2);
  write(wire::CellKind::eager, wire::EagerHeader{0, 0, 0}, 1U << 31);
  write(wire::CellKind::eager, wire::EagerHeader{~std::uint64_t{0}, 0, 0}, 64);
  write(wire::CellKind::eager, wire::EagerHeader{63, 0, 0}, 64);
  write(wire::CellKind::eager_more, 0, 64);
  write(wire::CellKind::ready_to_send, wire::SendOffer{1, ~std::uint64_t{0}, 0});
  progress();
  EXPECT_FALSE(receive->complete);
  write(wire::CellKind::eager_inline, 0x01020304, 4);
  progress();
  ASSERT_TRUE(receive->complete);
  EXPECT_EQ(receive->status.bytes, 4U);
  EXPECT_EQ(memory.back()[0], std::byte{4});
}

TEST_F(EngineHostile, AnswersThatNoSendWaitsForAreIgnored) {
  for (const wire::Cookie cookie : {wire::Cookie{0}, ~wire::Cookie{0}, wire::Cookie{1} << 32}) {
    write(wire::CellKind::acknowledge, cookie);
    write(wire::CellKind::share_done, cookie);
    write(wire::CellKind::clear_to_send, wire::ReceiveOffer{cookie, 0, 10});
    write(wire::CellKind::split_start, wire::SplitOffer{cookie, 0, 10, 0, 16384});
    write(wire::CellKind::fragment, wire::FragmentHeader{cookie, 0}, 10);
  }
  Request* receive = start_receive(100);
  write(wire::CellKind::acknowledge, receive->cookie());
  write(wire::CellKind::fragment, wire::FragmentHeader{receive->cookie(), 0}, 100);
  progress();
  EXPECT_FALSE(receive->complete);
}

TEST_F(EngineHostile, ASendHasOneAnswer) {
  make({16, 4096});
  Request* send = start_send(50'000);
  const wire::ReceiveOffer nothing{send->cookie(), 0, 0}, all{send->cookie(), 0, 50'000};
  write(wire::CellKind::clear_to_send, all);
  write(wire::CellKind::clear_to_send, nothing);
  write(wire::CellKind::clear_to_send, all);
  write(wire::CellKind::share_done, send->cookie());
  write(wire::CellKind::acknowledge, send->cookie());
  write(wire::CellKind::split_start, wire::SplitOffer{send->cookie(), 0, 50'000, 0, 16384});
  progress();
  EXPECT_FALSE(send->complete) << "its fragments have no room yet";
  std::uint64_t arrived = 0;
  RingReader reader = in();
  for (int i = 0; i < 1000; ++i) {
    while (const wire::Cell* cell = reader.front()) {
      if (cell->header.kind == wire::CellKind::fragment) {
        arrived += cell->header.size;
        reader.pop_piece(cell->header.size);
      } else {
        reader.pop();
      }
    }
    engine->progress();
  }
  EXPECT_EQ(arrived, 50'000U);
  EXPECT_TRUE(send->complete);
  EXPECT_EQ(reader.front(), nullptr);
}

TEST_F(EngineHostile, AnEmptyStreamCannotBeAskedForTwice) {
  make({16, 4096});
  std::vector<Request*> sends;
  while (sends.size() < 3) {  // the last of them wait for room, and so do fragments
    Request* send = start_send(50'000);
    ASSERT_TRUE(send);
    if (send->unsent) break;
    sends.push_back(send);
  }
  ASSERT_FALSE(sends.empty());
  for (int i = 0; i < 13; ++i)
    start_send(8);
  for (Request* send : sends)
    for (int i = 0; i < 2; ++i)
      write(wire::CellKind::clear_to_send, wire::ReceiveOffer{send->cookie(), 0, 0});
  progress();
  RingReader reader = in();
  int fragments = 0;
  for (int i = 0; i < 100; ++i) {
    while (const wire::Cell* cell = reader.front()) {
      const bool fragment = cell->header.kind == wire::CellKind::fragment;
      fragments += fragment ? 1 : 0;
      fragment ? reader.pop_piece(cell->header.size) : reader.pop();
    }
    engine->progress();
  }
  EXPECT_EQ(fragments, static_cast<int>(sends.size()));
  for (Request* send : sends)
    EXPECT_TRUE(send->complete);
}

// An honest receiver claims a message before it answers. One that does not must not have a send that is under
// way ended as if nobody had it: what carries it would go on with a request that is no more.
TEST_F(EngineHostile, ASendThatIsUnderWayIsNotTakenBackThoughItsReceiverNeverClaimedIt) {
  make({16, 4096});
  Request* streamed = start_send(50'000, SendMode::synchronous);
  for (int i = 0; i < 15; ++i)
    start_send(8);  // no cell is left for a fragment
  write(wire::CellKind::clear_to_send, wire::ReceiveOffer{streamed->cookie(), 0, 50'000});
  progress();
  ASSERT_EQ(streamed->transfer, Request::Transfer::stream);
  engine->cancel(*streamed);
  EXPECT_FALSE(streamed->status.cancelled);

  make({16, 64 * 1024});
  Request* split = start_send(200'000, SendMode::synchronous);
  write(wire::CellKind::split_start, wire::SplitOffer{split->cookie(), 0, 200'000, 0, 102'400});
  progress(1);
  ASSERT_EQ(split->transfer, Request::Transfer::split);
  engine->cancel(*split);
  EXPECT_FALSE(split->status.cancelled);
}

TEST_F(EngineHostile, AsksForMoreThanWasOfferedAreRefused) {
  Request* send = start_send(50'000);
  write(wire::CellKind::clear_to_send, wire::ReceiveOffer{send->cookie(), 0, 50'001});
  write(wire::CellKind::split_start, wire::SplitOffer{send->cookie(), 0, 50'001, 0, 16384});
  write(wire::CellKind::split_start, wire::SplitOffer{send->cookie(), 0, 50'000, 0xffff'ffff, 16384});
  write(wire::CellKind::split_start, wire::SplitOffer{send->cookie(), 0, 50'000, 0, 0});
  write(wire::CellKind::split_start, wire::SplitOffer{send->cookie(), 0, 50'000, 0, 1});
  progress();
  EXPECT_FALSE(send->complete);
  write(wire::CellKind::share_done, send->cookie());
  progress();
  EXPECT_TRUE(send->complete);
}

TEST_F(EngineHostile, FragmentsOutOfPlaceAreRefused) {
  Request* receive = start_receive(1000);
  write(wire::CellKind::ready_to_send, wire::SendOffer{9, 1000, 0});
  progress();
  const wire::Cookie cookie = receive->cookie();
  write(wire::CellKind::fragment, wire::FragmentHeader{cookie, 1}, 10);
  write(wire::CellKind::fragment, wire::FragmentHeader{cookie, 0}, 1001);
  write(wire::CellKind::fragment, wire::FragmentHeader{cookie, ~std::uint64_t{0}}, 10);
  progress();
  EXPECT_EQ(receive->moved, 0U);
  write(wire::CellKind::fragment, wire::FragmentHeader{cookie, 0}, 600);
  write(wire::CellKind::fragment, wire::FragmentHeader{cookie, 600}, 401);
  write(wire::CellKind::fragment, wire::FragmentHeader{cookie, 600}, 400);
  write(wire::CellKind::fragment, wire::FragmentHeader{cookie, 1000}, 0);
  progress();
  EXPECT_TRUE(receive->complete);
  EXPECT_EQ(memory.back(), std::vector<std::byte>(1000, std::byte{0x5a}));
}

TEST_F(EngineHostile, AMessageThatEndsEarlyIsAnErrorOfItsReceive) {
  Request* receive = start_receive(5000);
  write(wire::CellKind::eager, wire::EagerHeader{5000, 0, 0}, 2000);
  progress();
  EXPECT_TRUE(receive->matched);
  EXPECT_FALSE(receive->complete);
  write(wire::CellKind::eager, wire::EagerHeader{3000, 0, 0}, 1000);
  progress();
  ASSERT_TRUE(receive->complete);
  EXPECT_EQ(receive->status.error, static_cast<int>(ErrorClass::intern));
  // The second has come unexpected, and is cut short by the third.
  write(wire::CellKind::eager, wire::EagerHeader{100, 0, 0}, 100);
  Request* second = start_receive(3000);
  Request* third = start_receive(3000);
  write(wire::CellKind::eager_more, 0, 100);
  progress();
  EXPECT_TRUE(second->complete);
  ASSERT_TRUE(third->complete);
  EXPECT_EQ(third->status.error, 0);
  EXPECT_EQ(third->status.bytes, 100U);
}

TEST_F(EngineHostile, WhoSaysThatAllWasReadOrStartsOverOutOfTurnHarmsNobodyElse) {
  for (const std::uint64_t told : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, ~std::uint64_t{0}}) {
    Request* first = start_receive(1000);
    Request* second = start_receive(1000);
    write(wire::CellKind::eager, wire::EagerHeader{1000, 0, told}, 1000);
    write(wire::CellKind::eager_over, wire::EagerHeader{1000, 0, told}, 1000);
    EXPECT_EQ(start_send(3000), nullptr) << "it is complete";
    progress();
    EXPECT_TRUE(first->complete && second->complete) << told;
    EXPECT_EQ(second->status.bytes, 1000U);
  }
}

TEST_F(EngineHostile, APartOfAnUnexpectedMessageIsNeverTakenForAnother) {
  write(wire::CellKind::eager, wire::EagerHeader{5000, 0, 0}, 1000);
  write(wire::CellKind::eager, wire::EagerHeader{6000, 0, 0}, 1000);
  progress();
  Request* first = start_receive(5000);
  EXPECT_TRUE(first->complete);
  Request* second = start_receive(6000);
  EXPECT_FALSE(second->complete);
  write(wire::CellKind::eager_more, 0, 5000);
  progress();
  EXPECT_TRUE(second->complete);
  EXPECT_EQ(memory.back(), std::vector<std::byte>(6000, std::byte{0x5a}));
}

TEST_F(EngineHostile, PiecesOfAMessageToAListenerAreDropped) {
  write(wire::CellKind::eager, wire::EagerHeader{5000, 0, 0}, 1000, 1, 5, ContextIds::failure);
  progress();
  write(wire::CellKind::eager_more, 0, 4000);
  say(Engine::world_context, 1, 5, std::uint64_t{42});
  progress();
  Request* receive = start_receive(8);
  EXPECT_TRUE(receive->complete);
  EXPECT_EQ(receive->status.bytes, 8U);
}

TEST_F(EngineHostile, WhatAnOfferToAListenerSaidIsNotSaidOfTheNextMessage) {
  // Words of claims, all taken back.
  constexpr std::uint64_t bytes = 4096;
  wire::RegionHeap heap = region().heap();
  const auto words = [&heap] {
    const std::uint64_t offset = *heap.allocate(bytes);
    std::memset(heap.at(offset, bytes).data(), 0, bytes);
    return offset + 1;
  };
  const std::uint64_t directory = words();
  const std::uint64_t block = words();
  std::memcpy(heap.at(directory - 1, bytes).data(), &block, sizeof block);
  region().block(1).claims.store(directory);

  write(wire::CellKind::ready_to_send, wire::SendOffer{7, 100'000, 0}, 0, 1, 5, ContextIds::failure);
  progress();
  say(Engine::world_context, 1, 5, std::uint64_t{42});
  progress();
  Request* receive = start_receive(8);
  EXPECT_TRUE(receive->complete);
  EXPECT_EQ(receive->status.bytes, 8U);
}

TEST_F(EngineHostile, ARingCounterBeyondAllRingsFailsTheSend) {
  make({64, 64 * 1024});
  region().header().rings_used.store(0xffff'fff0);
  for (const std::uint64_t bytes : {0, 8, 1000, 100'000}) {
    Request* send = start_send(bytes);
    ASSERT_TRUE(send);
    EXPECT_TRUE(send->complete);
    EXPECT_EQ(send->status.error, static_cast<int>(ErrorClass::intern));
    engine->free(send);
  }
  write(wire::CellKind::ready_to_send, wire::SendOffer{1, 100, 0});
  Request* receive = start_receive(100);
  progress();
  EXPECT_FALSE(receive->complete);
  EXPECT_EQ(engine->requests().living(), 1U);
}

TEST_F(EngineHostile, RingsThatDoNotExistAreNotOpened) {
  make({64, 64 * 1024});
  const auto again = [&](std::uint32_t from, std::uint32_t entry) {
    region().directory(0)[from].store(entry);
    region().block(0).connections.fetch_add(1);
    progress();
  };
  again(1, 3);
  again(1, 0xffff'ffff);
  // A ring from a rank to itself would let the peer answer for messages that never left this process.
  again(0, 1);
  Request* send = engine->start_send({0, 0, 0, 5}, Payload::of("x", 1), SendMode::synchronous);
  ASSERT_TRUE(send);
  write(wire::CellKind::acknowledge, send->cookie());
  progress();
  EXPECT_FALSE(send->complete);
  Request* receive = start_receive(1, 0);
  EXPECT_TRUE(send->complete && receive->complete);
}

TEST_F(EngineHostile, ASharedCopyTakesNoFragmentsAndSurvivesAnyProgress) {
  static std::uint64_t probe[2] = {0xbeef, 0};
  static std::vector<std::byte> source(200'000, std::byte{9});
  const Child peer;
  place().pid = peer.pid();
  place().probe_nonce = probe[0];
  place().probe_address = reinterpret_cast<std::uint64_t>(probe);
  if (!engine->pull_reach(1)) GTEST_SKIP() << engine->pull_reach(1).error().text;

  wire::Share* share = nullptr;
  for (const std::uint64_t claimed :
       {std::uint64_t{0}, std::uint64_t{3} << 32, ~std::uint64_t{0}, std::uint64_t{0xffff'ffff}}) {
    Request* receive = start_receive(source.size());
    write(wire::CellKind::ready_to_send,
          wire::SendOffer{1, source.size(), reinterpret_cast<std::uint64_t>(source.data())});
    progress(1);
    share = receive->complete ? share : receive->share;
    ASSERT_TRUE(share);
    share->claimed.store(claimed);
    share->done.store(0);
    // Whether it is complete or waits for the peer's half, these are for nobody.
    write(wire::CellKind::fragment, wire::FragmentHeader{receive->cookie(), 0}, 16'000);
    progress();
    share->in_use.store(0);
    share->done.store(0xffff'ffff);
    progress();
    // A peer that claims to have copied what it has not harms its own message alone.
    EXPECT_TRUE(receive->complete);
    engine->free(receive);
  }
  EXPECT_EQ(engine->requests().living(), 0U);
}

TEST_F(EngineHostile, ASharedCopyWithAProcessThatHasGoneFailsAsAWhole) {
  static std::uint64_t probe[2] = {0xdead, 0};
  static std::vector<std::byte> source(400'000, std::byte{9});
  {
    const Child peer;
    place().pid = peer.pid();
    place().probe_nonce = probe[0];
    place().probe_address = reinterpret_cast<std::uint64_t>(probe);
    if (!engine->pull_reach(1)) GTEST_SKIP() << engine->pull_reach(1).error().text;
  }
  const auto begin = std::chrono::steady_clock::now();
  Request* receive = start_receive(source.size());
  write(wire::CellKind::ready_to_send,
        wire::SendOffer{1, source.size(), reinterpret_cast<std::uint64_t>(source.data())});
  progress(100);
  ASSERT_TRUE(receive->complete);
  EXPECT_EQ(receive->status.error, static_cast<int>(ErrorClass::proc_aborted));
  // Half a second for the launcher, once: for each of the chunks it was 12 seconds.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
  engine->free(receive);
}

TEST_F(EngineHostile, WithoutTheHeapNothingIsStaged) {
  for (const std::uint32_t lock : {wire::HeapHeader::given_up, 77U}) {
    make({64, 64 * 1024});
    region().header().heap.lock.store(lock);
    Request* send = start_send(50'000);
    write(wire::CellKind::stage, wire::StageRequest{send->cookie(), 9, 50'000, 1, 0, wire::StageChunks::usual,
                                                    wire::StageWindow::none, 0});
    progress();
    ASSERT_TRUE(send->complete);
    EXPECT_EQ(send->status.error, static_cast<int>(ErrorClass::intern));
    engine->free(send);
  }
}

TEST_F(EngineHostile, DoorbellsOfRanksThatDoNotExistAreNoise) {
  make({64, 64 * 1024}, wire::IdlePolicy::sleep);
  for (auto& word : region().doorbells(0))
    word.store(~std::uint64_t{0});
  progress();
  Request* receive = start_receive(4);
  write(wire::CellKind::eager_inline, 3, 4);
  progress();
  EXPECT_TRUE(receive->complete);
}

TEST_F(EngineHostile, MessagesOfContextsThatNobodyOpensGoWithTheEngine) {
  for (std::uint64_t context = 50; context < 90; ++context) {
    ASSERT_TRUE(out.has_cell());
    out.publish({.context = context,
                 .source = 1,
                 .tag = 0,
                 .size = 8,
                 .kind = wire::CellKind::eager_inline,
                 .flag = wire::CellFlag::none,
                 .mark = 0},
                &context, 8);
  }
  progress();
  EXPECT_EQ(engine->requests().living(), 0U);
}

}  // namespace
}  // namespace isthmus::engine_hostile_test
