#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "channel/shm/ring_reader.hpp"
#include "channel/shm/ring_writer.hpp"

namespace isthmus::ring_test {
namespace {

constexpr wire::RingGeometry geometry{16, 4096};

class RingTest : public testing::Test {
 protected:
  static constexpr std::size_t size =
      sizeof(wire::RingHeader) + geometry.cells * sizeof(wire::Cell) + geometry.data_bytes;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  static std::byte* zeros() {
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(wire::cache_line, size));
    std::memset(memory, 0, size);
    return memory;
  }

  static wire::CellHeader header(int tag, std::uint32_t bytes, wire::CellKind kind) {
    return {.context = 0, .source = 0, .tag = tag, .size = bytes, .kind = kind, .flag = {}, .mark = 0};
  }
  static std::byte pattern(int tag, std::size_t i) {
    return static_cast<std::byte>(tag * 31 + static_cast<int>(i));
  }

  bool write_inline(int tag) {
    if (!writer.has_cell()) return false;
    std::array<std::byte, wire::inline_capacity> payload;
    for (std::size_t i = 0; i < payload.size(); ++i)
      payload[i] = pattern(tag, i);
    writer.publish(header(tag, 32, wire::CellKind::eager_inline), payload.data(), payload.size());
    return true;
  }
  bool write_piece(int tag, std::uint32_t bytes) { return write_at(tag, bytes, &RingWriter::reserve); }
  bool write_first(int tag, std::uint32_t bytes) { return write_at(tag, bytes, &RingWriter::reserve_first); }
  bool write_at(int tag, std::uint32_t bytes, std::byte* (RingWriter::*reserve)(std::uint32_t)) {
    if (!writer.has_cell()) return false;
    std::byte* to = (writer.*reserve)(bytes);
    if (!to) return false;
    last = static_cast<std::size_t>(to - data());
    const auto offset = static_cast<std::size_t>(to - data());
    EXPECT_LE(offset + bytes, geometry.data_bytes) << "a piece beyond the ring";
    for (std::uint32_t i = 0; i < bytes; ++i)
      to[i] = pattern(tag, i);
    const std::uint64_t part = 77;
    const auto kind = writer.starts_over() ? wire::CellKind::eager_over : wire::CellKind::fragment;
    writer.publish_reserved(header(tag, bytes, kind), &part, sizeof part);
    return true;
  }
  /// Reads the next cell and checks it.
  void read(int tag) {
    const wire::Cell* cell = reader.front();
    ASSERT_TRUE(cell);
    const wire::CellHeader found = cell->header;
    ASSERT_EQ(found.tag, tag);
    if (found.kind == wire::CellKind::eager_inline) {
      for (std::size_t i = 0; i < wire::inline_capacity; ++i)
        ASSERT_EQ(cell->payload[i], pattern(tag, i));
      reader.pop();
    } else {
      if (wire::starts_over(found.kind)) reader.start_over();
      const std::byte* piece = reader.piece(found.size);
      for (std::uint32_t i = 0; i < found.size; ++i)
        ASSERT_EQ(piece[i], pattern(tag, i));
      reader.pop_piece(found.size);
    }
  }
  std::byte* data() { return memory.get() + sizeof(wire::RingHeader) + geometry.cells * sizeof(wire::Cell); }
  wire::RingHeader& ring() { return *reinterpret_cast<wire::RingHeader*>(memory.get()); }

  std::unique_ptr<std::byte, Free> memory{zeros()};
  RingWriter writer{{memory.get(), size}, geometry};
  RingReader reader{{memory.get(), size}, geometry};
  std::size_t last = 0;  ///< where the last piece lies in the byte ring
};

TEST_F(RingTest, MessagesThatAreAnsweredGoThroughOnePlace) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(write_first(3 * i, RingWriter::most_fetched + 1));
    EXPECT_EQ(last, 0U);
    ASSERT_TRUE(write_piece(3 * i + 1, static_cast<std::uint32_t>(i)));
    ASSERT_TRUE(write_inline(3 * i + 2));
    for (int tag = 3 * i; tag < 3 * i + 3; ++tag)
      read(tag);
    writer.heard(reader.cells_read());
  }
}

/// So the place of the next one is free while the last one is being read, and can be fetched ahead.
TEST_F(RingTest, ShortOnesThatAreAnsweredGoThroughTwoPlaces) {
  int tag = 0;
  for (const std::uint32_t bytes : {1U, 64U, 600U, RingWriter::most_fetched}) {
    ASSERT_TRUE(write_first(tag, bytes));
    writer.fetch_next(bytes);
    read(tag++);
    writer.heard(reader.cells_read());
    std::array<std::size_t, 6> places{};
    for (std::size_t& place : places) {
      ASSERT_TRUE(write_first(tag, bytes));
      writer.fetch_next(bytes);
      place = last;
      read(tag++);
      writer.heard(reader.cells_read());
    }
    for (std::size_t i = 2; i < places.size(); ++i) {
      EXPECT_EQ(places[i], places[i - 2]) << bytes;
      EXPECT_NE(places[i], places[i - 1]) << bytes;
      EXPECT_LE(places[i], wire::round_to_line(bytes)) << bytes;
    }
  }
}

/// Cells without a piece do not count: their reader may not have told that it has read them.
TEST_F(RingTest, StartsOverWhereAllPiecesAreKnownToBeRead) {
  ASSERT_TRUE(write_first(0, 2000));
  ASSERT_TRUE(write_piece(1, 600));
  read(0);
  read(1);
  writer.heard(reader.cells_read());
  ASSERT_TRUE(write_inline(2));
  EXPECT_FALSE(writer.is_answered());
  ASSERT_TRUE(write_first(3, 2000));
  EXPECT_EQ(last, 0U);
  read(2);
  read(3);
}

/// Short pieces where they come with others, and long ones always.
TEST_F(RingTest, AReaderThatHandsBackWritesToTheLinesThatItHasRead) {
  const auto line_of = [&](std::size_t offset) { return data()[offset]; };
  reader = RingReader({memory.get(), size}, geometry, 0, true);
  reader.look(1);
  ASSERT_TRUE(write_piece(1, 100));
  read(1);
  EXPECT_EQ(line_of(0), pattern(1, 0)) << "it answers one that has been written the other way";
  ASSERT_TRUE(write_piece(2, 100));
  const std::size_t second = last;
  ASSERT_TRUE(write_inline(3));
  reader.look(2);
  read(2);
  EXPECT_EQ(line_of(second), std::byte{0}) << "another one is there already";
  EXPECT_EQ(line_of(second + 1), pattern(2, 1)) << "a byte of each line";
  EXPECT_EQ(line_of(second + 64), std::byte{0});
  read(3);
  ASSERT_TRUE(write_piece(4, 1100));
  const std::size_t third = last;
  read(4);
  for (std::size_t at = 0; at < 1100; at += 64)
    EXPECT_EQ(line_of(third + at), std::byte{0}) << at;
  EXPECT_EQ(line_of(third + 1100), std::byte{0}) << "which nobody has written";
  ASSERT_TRUE(write_piece(5, 100));
  reader.look(2);
  read(5);
  EXPECT_EQ(line_of(last), std::byte{0}) << "nothing has been written the other way";
}

TEST_F(RingTest, AReaderThatKeepsThemWritesNothing) {
  ASSERT_TRUE(write_piece(1, 1100));
  ASSERT_TRUE(write_inline(2));
  read(1);
  for (std::size_t i = 0; i < 1100; ++i)
    ASSERT_EQ(data()[i], pattern(1, i));
}

TEST_F(RingTest, NothingStartsOverBeforeAllIsKnownToBeRead) {
  ASSERT_TRUE(write_first(0, 600));
  ASSERT_TRUE(write_first(1, 600));
  EXPECT_EQ(last, 640U);
  read(0);
  writer.heard(reader.cells_read());
  ASSERT_TRUE(write_first(2, 600));
  EXPECT_EQ(last, 1280U);
  read(1);
  read(2);
  ASSERT_TRUE(write_first(3, 600));
  EXPECT_NE(last, 0U) << "it has been read, and nobody has said so";
  read(3);
}

TEST_F(RingTest, WhatNoReaderCanHaveReadIsNotBelieved) {
  ASSERT_TRUE(write_first(0, 600));
  writer.heard(7);
  ASSERT_TRUE(write_first(1, 600));
  EXPECT_EQ(last, 640U);
  read(0);
  read(1);
  writer.heard(reader.cells_read());
  writer.heard(1);  // older
  ASSERT_TRUE(write_first(2, 600));
  EXPECT_EQ(last, 0U);
  read(2);
}

/// A piece that is reserved to start over and never written leaves no trace.
TEST_F(RingTest, AReservationThatIsGivenUpDoesNotStartOver) {
  ASSERT_TRUE(write_first(0, 600));
  read(0);
  writer.heard(reader.cells_read());
  EXPECT_EQ(writer.reserve_first(64), data());
  EXPECT_TRUE(writer.starts_over());
  ASSERT_TRUE(write_piece(1, 64));
  EXPECT_EQ(last, 640U);
  read(1);
}

/// Answered and unanswered messages of all lengths in any order: none is lost, and the ring never stays full.
TEST_F(RingTest, StartsOverAmongAllElse) {
  std::mt19937 random(5);
  int written = 0;
  int was_read = 0;
  for (int step = 0; step < 100'000; ++step) {
    const auto bytes = static_cast<std::uint32_t>(random() % (wire::maximum_piece(geometry) + 1));
    switch (random() % 6) {
      case 0:
        if (write_inline(written)) ++written;
        break;
      case 1:
        if (write_piece(written, bytes)) ++written;
        break;
      case 2:
        if (write_first(written, bytes)) ++written;
        break;
      case 3:
        writer.heard(reader.cells_read());
        break;
      case 4:
        if (was_read < written) read(was_read++);
        break;
      default:
        while (was_read < written)
          read(was_read++);
        ASSERT_TRUE(write_first(written, bytes)) << step;
        ++written;
    }
    if (HasFatalFailure()) return;
  }
}

TEST_F(RingTest, IsEmptyAtFirstAndAfterEverythingHasBeenRead) {
  EXPECT_EQ(reader.front(), nullptr);
  ASSERT_TRUE(write_inline(1));
  read(1);
  EXPECT_EQ(reader.front(), nullptr);
}

TEST_F(RingTest, KeepsTheOrderAroundManyRounds) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(write_inline(2 * i));
    ASSERT_TRUE(write_piece(2 * i + 1, static_cast<std::uint32_t>(i)));
    read(2 * i);
    read(2 * i + 1);
  }
}

TEST_F(RingTest, TakesAsManyCellsAsItHasAndNoMore) {
  for (int i = 0; i < 16; ++i)
    ASSERT_TRUE(write_inline(i));
  EXPECT_FALSE(write_inline(16));
  for (int i = 0; i < 16; ++i)
    read(i);
  for (int i = 16; i < 28; ++i)
    EXPECT_TRUE(write_inline(i)) << "only a quarter of what was read may be kept back";
}

TEST_F(RingTest, ThePieceRingIsFullBeforeAnythingIsOverwritten) {
  ASSERT_TRUE(write_piece(0, 1536));
  ASSERT_TRUE(write_piece(1, 1536));
  EXPECT_FALSE(write_piece(2, 1536));
  EXPECT_TRUE(write_piece(2, 1024));
  EXPECT_FALSE(write_piece(3, 1));
  EXPECT_TRUE(write_piece(3, 0));
  for (int i = 0; i < 4; ++i)
    read(i);
}

TEST_F(RingTest, TheLargestPieceFitsWhereverTheRingStands) {
  const std::uint32_t largest = wire::maximum_piece(geometry);
  for (std::uint32_t before = 0; before <= geometry.data_bytes; before += 64) {
    std::memset(memory.get(), 0, size);
    writer = RingWriter({memory.get(), size}, geometry);
    reader = RingReader({memory.get(), size}, geometry);
    int tag = 0;
    for (std::uint32_t left = before; left > 0; ++tag) {
      const std::uint32_t piece = std::min(left, 512U);
      ASSERT_TRUE(write_piece(tag, piece));
      read(tag);
      left -= piece;
    }
    ASSERT_TRUE(write_piece(tag, largest)) << "all has been read, " << before << " bytes before";
    read(tag);
    ASSERT_TRUE(write_piece(tag + 1, largest)) << before << " bytes before";
    read(tag + 1);
  }
}

TEST_F(RingTest, PiecesOfEverySizeWrapWhole) {
  std::mt19937 random(7);
  for (int tag = 0; tag < 3000; ++tag) {
    ASSERT_TRUE(write_piece(tag, random() % (wire::maximum_piece(geometry) + 1)));
    read(tag);
  }
}

TEST_F(RingTest, RoomForSeveralPiecesIsThereWhenItWasPromised) {
  std::mt19937 random(8);
  for (int round = 0; round < 500; ++round) {
    const std::uint32_t piece = 1 + random() % 512;
    const std::uint32_t count = 1 + random() % 3;
    ASSERT_TRUE(writer.has_room(count, std::uint64_t{piece} * count, piece)) << "round " << round;
    for (std::uint32_t i = 0; i < count; ++i)
      ASSERT_TRUE(write_piece(static_cast<int>(i), piece));
    for (std::uint32_t i = 0; i < count; ++i)
      read(static_cast<int>(i));
  }
  EXPECT_FALSE(writer.has_room(17, 17, 1));
  EXPECT_FALSE(writer.has_room(2, 8192, 4096));
}

TEST_F(RingTest, ProgressThatNoReaderCanHaveMadeIsIgnored) {
  for (int i = 0; i < 16; ++i)
    ASSERT_TRUE(write_piece(i, 256));
  for (const std::uint64_t nonsense :
       {std::uint64_t{17}, std::uint64_t{1} << 32, ~std::uint64_t{0}, ~std::uint64_t{0} - 15}) {
    ring().cells_read.store(nonsense);
    ring().bytes_read.store(nonsense << 8);
    EXPECT_FALSE(write_inline(99)) << nonsense;
    EXPECT_FALSE(write_piece(99, 64)) << nonsense;
  }
  ring().cells_read.store(0);
  ring().bytes_read.store(0);
  for (int i = 0; i < 16; ++i)
    read(i);
}

TEST_F(RingTest, ProgressBackwardsOnlyTakesRoomAway) {
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(write_piece(i, 200));
    read(i);
  }
  ring().cells_read.store(30);
  ring().bytes_read.store(30 * 256 + 1);
  int written = 0;
  while (write_piece(written, 200))
    ++written;
  EXPECT_LE(written, 16);
  for (int i = 0; i < written; ++i)
    read(i);
}

// Cells have 32 bits of their number.
TEST_F(RingTest, GoesOnWhenFourThousandMillionCellsHaveGoneThrough) {
  constexpr std::uint64_t all = std::uint64_t{1} << 32;
  constexpr std::uint64_t before = all - 100;
  auto* const cells = reinterpret_cast<wire::Cell*>(memory.get() + sizeof(wire::RingHeader));
  for (std::uint64_t number = before - geometry.cells; number < before; ++number)
    cells[number % geometry.cells].sequence.store(static_cast<std::uint32_t>(number + 1));
  ring().cells_read.store(before);
  writer = RingWriter({memory.get(), size}, geometry, before);
  reader = RingReader({memory.get(), size}, geometry, before);
  EXPECT_EQ(reader.front(), nullptr);
  std::mt19937 random(9);
  int written = 0, seen = 0;
  while (seen < 200 && !HasFailure()) {
    for (auto next = static_cast<int>(random() % 17); next > 0; --next)
      if (next % 2 != 0 ? write_inline(written) : write_piece(written, 64)) ++written;
    ASSERT_LE(written - seen, 16);
    for (auto next = static_cast<int>(random() % 17); next > 0 && seen < written; --next)
      read(seen++);
    if (seen == written) EXPECT_EQ(reader.front(), nullptr) << seen;
  }
  EXPECT_GT(ring().cells_read.load(), all);
}

TEST_F(RingTest, AReaderThatIsNotOpenSaysSo) {
  EXPECT_FALSE(RingReader().open());
  EXPECT_FALSE(RingWriter().open());
  EXPECT_TRUE(reader.open());
  EXPECT_TRUE(writer.open());
}

TEST_F(RingTest, TwoThreadsSeeEveryCellOnceAndWhole) {
  constexpr int messages = 20'000;
  std::jthread sender([&] {
    for (int tag = 0; tag < messages;) {
      const bool written =
          tag % 3 == 0 ? write_inline(tag) : write_piece(tag, static_cast<std::uint32_t>(tag) % 1500);
      if (written)
        ++tag;
      else
        std::this_thread::yield();
    }
  });
  for (int tag = 0; tag < messages;) {
    if (!reader.front()) {
      std::this_thread::yield();
      continue;
    }
    read(tag++);
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST(PieceStart, NeverWrapsAndNeverSkipsWithoutNeed) {
  constexpr std::uint64_t mask = 4095;
  for (std::uint64_t position = 0; position < 3 * 4096; position += 64)
    for (const std::uint32_t bytes : {0U, 1U, 64U, 65U, 1000U, 1536U}) {
      const std::uint64_t start = wire::piece_start(position, bytes, mask);
      EXPECT_GE(start, position);
      EXPECT_LE((start & mask) + bytes, mask + 1);
      if ((position & mask) + bytes <= mask + 1)
        EXPECT_EQ(start, position);
      else
        EXPECT_EQ(start & mask, 0U);
    }
}

}  // namespace
}  // namespace isthmus::ring_test
