// Messages through the place of a pair, of which the engine has the lower slot: first the engine's.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "engine_hostile.hpp"

namespace isthmus::engine_place_test {
namespace {

using testing_hostile::EngineHostile;

class EnginePlace : public EngineHostile {
 protected:
  std::byte* pair_place() {
    const std::uint32_t entry = region().directory(1)[0].load();
    return region().ring(entry - 1).data() + wire::place_offset(region().geometry());
  }
  /// The engine's next cell.
  wire::CellHeader next() {
    if (!reader) reader = in();
    const wire::Cell* cell = reader->front();
    EXPECT_TRUE(cell);
    if (!cell) return {};
    const wire::CellHeader header = cell->header;
    if (wire::starts_over(header.kind)) reader->start_over();
    wire::has_piece(header.kind) ? reader->pop_piece(header.size) : reader->pop();
    return header;
  }
  /// A message of `bytes` through the ring, which tells that all of the engine's have been read.
  void answer(std::uint32_t bytes = 100) {
    write(wire::CellKind::eager, wire::EagerHeader{bytes, 0, reader ? reader->cells_read() : 0}, bytes, 1, 6);
    progress();
  }
  /// One through the place, each byte `value`, whose first piece has `size` of them.
  void place_message(std::uint32_t bytes, std::uint32_t size, std::byte value) {
    std::memset(pair_place(), static_cast<int>(value), bytes);
    write(wire::CellKind::eager_placed, wire::EagerHeader{bytes, 0, reader->cells_read()}, size);
  }
  /// The engine's first message, which is answered.
  void begin() {
    EXPECT_EQ(start_send(2000), nullptr) << "it is complete";
    EXPECT_EQ(next().kind, wire::CellKind::eager);
    answer();
  }
  /// And its second, through the place, which is then the other side's.
  void give() {
    begin();
    expect_own();
  }
  void expect_bytes(const Request* receive, std::uint64_t bytes, std::byte value) {
    ASSERT_TRUE(receive->complete);
    EXPECT_EQ(receive->status.error, 0);
    ASSERT_EQ(receive->status.bytes, bytes);
    std::vector<std::byte> wanted(memory.back().size());
    std::fill_n(wanted.begin(), bytes, value);
    EXPECT_EQ(memory.back(), wanted);
  }
  void expect_own() {
    EXPECT_EQ(start_send(3000), nullptr);
    EXPECT_EQ(next().kind, wire::CellKind::eager_placed);
  }

  std::optional<RingReader> reader;
};

TEST_F(EnginePlace, AMessageAndItsAnswerLieInOnePlace) {
  begin();
  for (int round = 0; round < 100; ++round) {
    EXPECT_EQ(start_send(4096), nullptr);
    const wire::CellHeader sent = next();
    ASSERT_EQ(sent.kind, wire::CellKind::eager_placed);
    EXPECT_EQ(sent.size, 4096U);
    EXPECT_EQ(std::vector<std::byte>(pair_place(), pair_place() + 4096), memory.back());
    Request* receive = start_receive(5000);
    place_message(4000, 4000, std::byte{0x21});
    progress();
    expect_bytes(receive, 4000, std::byte{0x21});
    engine->free(receive);
  }
}

TEST_F(EnginePlace, WhatIsNotAnsweredGoesThroughTheRing) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(start_send(4096), nullptr);
    EXPECT_TRUE(wire::has_piece(next().kind));
  }
  answer();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(start_send(4096), nullptr);
    EXPECT_EQ(next().kind == wire::CellKind::eager_placed, i == 0);
  }
  answer();
  EXPECT_EQ(start_send(4096), nullptr);
  EXPECT_TRUE(wire::has_piece(next().kind)) << "answered, but not through the place, which is the other's";
  place_message(2000, 2000, std::byte{1});
  progress();
  expect_own();
}

/// Where the receiver has told that it has read all that lies in the byte ring, and not before.
TEST_F(EnginePlace, AStreamBeginsAtTheBeginningOfTheRing) {
  for (int round = 0; round < 20; ++round) {
    Request* const send = start_send(50'000);
    ASSERT_TRUE(send);
    EXPECT_EQ(next().kind, wire::CellKind::ready_to_send);
    const bool tells = round % 3 != 2;
    // Who answers at once has not gone past the offer yet.
    const std::uint64_t read = tells ? reader->cells_read() - round % 2 : 0;
    write(wire::CellKind::clear_to_send, wire::ReceiveOffer{send->cookie(), 0, 50'000, read});
    progress();
    wire::CellHeader fragment = next();
    EXPECT_EQ(fragment.kind == wire::CellKind::fragment_over, tells && round > 0) << round;
    std::uint32_t arrived = fragment.size;
    while (arrived < 50'000) {
      progress();
      fragment = next();
      ASSERT_EQ(fragment.kind, wire::CellKind::fragment);
      arrived += fragment.size;
    }
    EXPECT_TRUE(send->complete);
    engine->free(send);
  }
}

TEST_F(EnginePlace, ShortMessagesLeaveItToLongerOnes) {
  begin();
  EXPECT_EQ(start_send(1024), nullptr);
  EXPECT_TRUE(wire::has_piece(next().kind));
  answer();
  EXPECT_EQ(start_send(8), nullptr);
  EXPECT_EQ(next().kind, wire::CellKind::eager_inline);
  answer();
  expect_own();
}

// As only who lies about what it has read can have it.
TEST_F(EnginePlace, ItIsKeptUntilItsMessageHasItsCells) {
  make({16, 64 * 1024});
  for (int i = 0; i < 15; ++i)
    EXPECT_EQ(start_send(8), nullptr);
  write(wire::CellKind::eager, wire::EagerHeader{100, 0, 15}, 100, 1, 6);
  progress();
  Request* first = start_send(12'000);  // in two pieces
  Request* second = start_send(4000);
  ASSERT_TRUE(first && second);
  for (int i = 0; i < 15; ++i)
    EXPECT_EQ(next().kind, wire::CellKind::eager_inline);
  progress();
  EXPECT_TRUE(first->complete && second->complete);
  EXPECT_EQ(next().kind, wire::CellKind::eager_placed);
  EXPECT_EQ(next().kind, wire::CellKind::placed_more);
  EXPECT_TRUE(wire::has_piece(next().kind)) << "in order, and not through the place, which is the other's";
}

TEST_F(EnginePlace, LongerMessagesGoThereInPieces) {
  begin();
  EXPECT_EQ(start_send(12'000), nullptr);
  const wire::CellHeader first = next(), rest = next();
  EXPECT_EQ(first.kind, wire::CellKind::eager_placed);
  EXPECT_EQ(rest.kind, wire::CellKind::placed_more);
  EXPECT_EQ(first.size + rest.size, 12'000U);
  EXPECT_EQ(std::vector<std::byte>(pair_place(), pair_place() + 12'000), memory.back());
  Request* receive = start_receive(12'000);
  place_message(12'000, 5000, std::byte{3});
  progress();
  EXPECT_FALSE(receive->complete);
  write(wire::CellKind::placed_more, 0, 7000);
  progress();
  expect_bytes(receive, 12'000, std::byte{3});
  expect_own();
}

TEST_F(EnginePlace, AMessageBeforeItsReceiveIsKeptAndThePlaceIsFree) {
  give();
  place_message(12'000, 5000, std::byte{4});
  progress();
  EXPECT_EQ(start_send(3000), nullptr);
  EXPECT_TRUE(wire::has_piece(next().kind)) << "the other still writes there";
  write(wire::CellKind::placed_more, 0, 7000);
  answer();
  expect_own();
  std::memset(pair_place(), 0, 12'000);
  expect_bytes(start_receive(12'000), 12'000, std::byte{4});
}

TEST_F(EnginePlace, AReceiveThatIsTooShortCutsItsMessage) {
  give();
  Request* receive = start_receive(1500);
  place_message(12'000, 5000, std::byte{4});
  write(wire::CellKind::placed_more, 0, 7000);
  progress();
  ASSERT_TRUE(receive->complete);
  EXPECT_EQ(receive->status.error, static_cast<int>(ErrorClass::truncate));
  expect_own();
}

TEST_F(EnginePlace, MessagesInAPlaceThatIsNotTheirWritersAreIgnored) {
  Request* receive = start_receive(4000);
  write(wire::CellKind::eager_placed, wire::EagerHeader{2000, 0, 0}, 2000);  // of no ring that is open
  write(wire::CellKind::placed_more, 0, 2000);
  progress();
  EXPECT_FALSE(receive->complete);
  give();
  place_message(2000, 2000, std::byte{5});
  progress();
  ASSERT_TRUE(receive->complete);
  EXPECT_EQ(receive->status.bytes, 2000U);
  Request* second = start_receive(4000);
  place_message(2000, 2000, std::byte{6});  // again, though it is the engine's
  write(wire::CellKind::placed_more, 0, 2000);
  progress();
  EXPECT_FALSE(second->complete);
  expect_own();
}

TEST_F(EnginePlace, LengthsThatAreNoneOfAMessageInThePlaceAreIgnored) {
  give();
  Request* receive = start_receive(20'000);
  const std::uint32_t most = wire::place_bytes(region().geometry());
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{999}, std::uint64_t{most} + 1,
                                    std::uint64_t{1} << 32, ~std::uint64_t{0}})
    write(wire::CellKind::eager_placed, wire::EagerHeader{bytes, 0, 0}, 1000);
  write(wire::CellKind::eager_placed, wire::EagerHeader{most, 0, 0}, most + 1);
  write(wire::CellKind::eager_placed, wire::EagerHeader{most, 0, 0}, ~std::uint32_t{0});
  write(wire::CellKind::eager_placed, wire::EagerHeader{most, 0, 0}, 0);
  write(wire::CellKind::placed_more, 0, most + 1);
  write(wire::CellKind::eager_placed, wire::EagerHeader{4000, 0, 0}, 1000, -1);
  progress();
  EXPECT_FALSE(receive->complete);
  place_message(4000, 1000, std::byte{7});
  write(wire::CellKind::placed_more, 0, 3001);
  write(wire::CellKind::eager_placed, wire::EagerHeader{2000, 0, 0}, 2000);  // before the end of the last
  progress();
  EXPECT_FALSE(receive->complete);
  write(wire::CellKind::placed_more, 0, 3000);
  progress();
  expect_bytes(receive, 4000, std::byte{7});
  expect_own();
}

TEST_F(EnginePlace, AMessageThatEndsEarlyFailsItsReceiveAndKeepsThePlace) {
  give();
  Request* receive = start_receive(4000);
  place_message(4000, 1000, std::byte{8});
  write(wire::CellKind::eager, wire::EagerHeader{2000, 0, 0}, 2000);
  write(wire::CellKind::placed_more, 0, 2000);  // of a message that has been given up
  progress();
  ASSERT_TRUE(receive->complete);
  EXPECT_EQ(receive->status.error, static_cast<int>(ErrorClass::intern));
  answer();
  EXPECT_EQ(start_send(3000), nullptr);
  EXPECT_TRUE(wire::has_piece(next().kind)) << "its writer never said that it has done";
  Request* second = start_receive(4000);
  expect_bytes(second, 2000, std::byte{0x5a});
}

}  // namespace
}  // namespace isthmus::engine_place_test
