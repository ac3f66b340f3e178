// What a committed datatype packs, unpacks and lists as segments is what its typemap says, however the
// message is cut, and regular types take no memory for their blocks.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "datatype/cursor.hpp"
#include "datatype/make/construct.hpp"
#include "datatype_reference.hpp"

namespace isthmus::test::layout_test {
namespace {

class RandomTypemaps : public ::testing::TestWithParam<unsigned> {
 protected:
  /// Random types of every depth, each with its count.
  template <class Check>
  void for_each_type(Check&& check) {
    RandomTypes types(GetParam());
    for (int round = 0; round < 60; ++round) {
      BothWays both = types.make(1 + round % 5);
      ASSERT_TRUE(both.type->commit());
      check(both, types.number(0, 4), types);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(RandomTypemaps, HaveTheBoundsOfTheirTypemap) {
  for_each_type([](const BothWays& both, std::int64_t, RandomTypes&) {
    ASSERT_EQ(both.type->size(), both.map.size());
    ASSERT_EQ(both.type->lb(), both.map.lb());
    ASSERT_EQ(both.type->ub(), both.map.ub());
    ASSERT_EQ(both.type->true_lb(), both.map.true_lb());
    ASSERT_EQ(both.type->true_extent(), both.map.true_ub() - both.map.true_lb());
    ASSERT_EQ(both.type->bounds().elements, static_cast<std::int64_t>(both.map.entries.size()));
  });
}

TEST_P(RandomTypemaps, PackInFragmentsOfAnySize) {
  for_each_type([](const BothWays& both, std::int64_t count, RandomTypes& types) {
    Arena arena(both.map, count);
    arena.fill(types.random());
    const std::vector<std::byte> expected = both.map.pack(arena.base(), count);
    Cursor cursor(*both.type, arena.base(), count);
    ASSERT_EQ(cursor.size(), expected.size());
    std::vector<std::byte> packed;
    while (!cursor.done()) {
      std::vector<std::byte> piece(static_cast<std::size_t>(types.number(1, 50)));
      const std::size_t n = cursor.pack(piece);
      ASSERT_GT(n, 0u);
      packed.insert(packed.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n));
      ASSERT_EQ(cursor.position(), packed.size());
    }
    ASSERT_EQ(packed, expected);
    ASSERT_EQ(cursor.pack(packed), 0u);
  });
}

TEST_P(RandomTypemaps, UnpackInFragmentsOfAnySize) {
  for_each_type([](const BothWays& both, std::int64_t count, RandomTypes& types) {
    Arena expected(both.map, count), actual(both.map, count);
    std::vector<std::byte> message(static_cast<std::size_t>(both.map.size() * count));
    for (std::byte& byte : message)
      byte = static_cast<std::byte>(types.number(1, 255));
    both.map.unpack(expected.base(), count, message);
    Cursor cursor(*both.type, actual.base(), count);
    std::span<const std::byte> rest(message);
    while (!rest.empty()) {
      const auto n = std::min<std::size_t>(rest.size(), static_cast<std::size_t>(types.number(1, 50)));
      ASSERT_EQ(cursor.unpack(rest.first(n)), n);
      rest = rest.subspan(n);
    }
    ASSERT_TRUE(cursor.done());
    ASSERT_EQ(actual.bytes(), expected.bytes());
  });
}

TEST_P(RandomTypemaps, PackFromAnyPositionAfterASeek) {
  for_each_type([](const BothWays& both, std::int64_t count, RandomTypes& types) {
    Arena arena(both.map, count);
    arena.fill(types.random());
    const std::vector<std::byte> expected = both.map.pack(arena.base(), count);
    Cursor cursor(*both.type, arena.base(), count);
    for (int i = 0; i < 10; ++i) {
      const auto from = static_cast<std::size_t>(types.number(0, static_cast<std::int64_t>(expected.size())));
      const auto length = static_cast<std::size_t>(types.number(0, 64));
      cursor.seek(from);
      std::vector<std::byte> piece(length);
      piece.resize(cursor.pack(piece));
      const std::size_t end = std::min(from + length, expected.size());
      ASSERT_TRUE(std::equal(piece.begin(), piece.end(), expected.begin() + static_cast<std::ptrdiff_t>(from),
                             expected.begin() + static_cast<std::ptrdiff_t>(end)));
    }
    cursor.seek(UINT64_MAX);
    ASSERT_TRUE(cursor.done());
  });
}

TEST_P(RandomTypemaps, ListSegmentsThatCoverTheMessageInOrder) {
  for_each_type([](const BothWays& both, std::int64_t count, RandomTypes& types) {
    Arena arena(both.map, count);
    arena.fill(types.random());
    Cursor cursor(*both.type, arena.base(), count);
    std::vector<std::byte> gathered;
    while (!cursor.done()) {
      std::array<Segment, 3> segments;
      const auto limit = static_cast<std::uint64_t>(types.number(1, 70));
      const std::uint64_t before = cursor.position();
      const std::size_t n = cursor.segments(segments, limit);
      ASSERT_GT(n, 0u);
      ASSERT_LE(cursor.position() - before, limit);
      for (std::size_t i = 0; i < n; ++i) {
        gathered.insert(gathered.end(), segments[i].data, segments[i].data + segments[i].bytes);
      }
      ASSERT_EQ(cursor.position(), gathered.size());
    }
    ASSERT_EQ(gathered, both.map.pack(arena.base(), count));
  });
}

TEST_P(RandomTypemaps, CopyFromOneTypeToAnother) {
  RandomTypes types(GetParam());
  for (int round = 0; round < 60; ++round) {
    BothWays from = types.make(1 + round % 4), to = types.make(1 + round % 3);
    ASSERT_TRUE(from.type->commit());
    ASSERT_TRUE(to.type->commit());
    const std::int64_t from_count = types.number(0, 40), to_count = types.number(0, 40);
    Arena source(from.map, from_count), target(to.map, to_count), expected(to.map, to_count);
    source.fill(types.random());
    std::vector<std::byte> message = from.map.pack(source.base(), from_count);
    message.resize(std::min(message.size(), static_cast<std::size_t>(to.map.size() * to_count)));
    to.map.unpack(expected.base(), to_count, message);
    ASSERT_EQ(copy(*from.type, source.base(), from_count, *to.type, target.base(), to_count), message.size());
    ASSERT_EQ(target.bytes(), expected.bytes());
  }
}

TEST_P(RandomTypemaps, CountElementsInPartsOfAMessage) {
  for_each_type([](const BothWays& both, std::int64_t count, RandomTypes&) {
    std::int64_t bytes = 0, elements = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      for (const Entry& entry : both.map.entries) {
        ASSERT_EQ(both.type->elements_in(bytes), elements);
        ASSERT_EQ(both.type->bytes_of_elements(elements), bytes);
        if (info(entry.basic).size > 1) {
          ASSERT_EQ(both.type->elements_in(bytes + 1), std::nullopt);
        }
        bytes += info(entry.basic).size;
        ++elements;
      }
    }
    ASSERT_EQ(both.type->elements_in(bytes), elements);
  });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTypemaps, ::testing::Range(1u, 17u));

Ref<Datatype> committed(Result<Ref<Datatype>> made) {
  EXPECT_TRUE(made.has_value());
  EXPECT_TRUE((*made)->commit());
  return *std::move(made);
}

TEST(Layout, ARegularTypeTakesConstantMemory) {
  const Ref<Datatype> vector =
      committed(vector_type(1'000'000'000, 1, 2, Datatype::basic(Basic::double_), Form::large));
  const Ref<Datatype> matrix = committed(hvector_type(1'000'000, 1, 1 << 30, *vector, Form::large));
  EXPECT_LT(vector->layout().memory(), 1024u);
  EXPECT_LT(matrix->layout().memory(), 1024u);
  EXPECT_EQ(matrix->size(), 8'000'000'000'000'000);
}

TEST(Layout, ASeekFarIntoAHugeTypeFindsItsBlock) {
  const Ref<Datatype> vector =
      committed(vector_type(1'000'000'000, 1, 2, Datatype::basic(Basic::double_), Form::large));
  Cursor cursor(*vector, reinterpret_cast<void*>(0x1000), 3);
  cursor.seek(2 * 8'000'000'000 + 8 * 123'456'789 + 3);
  Segment segment{};
  ASSERT_EQ(cursor.segments({&segment, 1}, 5), 1u);
  const std::uintptr_t expected =
      0x1000 + 2 * static_cast<std::uintptr_t>(vector->extent()) + 16 * 123'456'789ul + 3;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.data), expected);
  EXPECT_EQ(segment.bytes, 5u);
}

TEST(Layout, AnIndexedTypeThatIsRegularBecomesALoop) {
  std::vector<int> displacements(10'000);
  for (std::size_t i = 0; i < displacements.size(); ++i)
    displacements[i] = static_cast<int>(3 * i);
  const Ref<Datatype> type = committed(
      indexed_block_type(2, std::span<const int>(displacements), Datatype::basic(Basic::int_), Form::small));
  EXPECT_LT(type->layout().memory(), 1024u);
}

TEST(Layout, BlocksThatTouchAreJoined) {
  const int lengths[] = {2, 3, 1}, displacements[] = {0, 2, 5};
  const Ref<Datatype> type =
      committed(indexed_type(std::span<const int>(lengths), std::span<const int>(displacements),
                             Datatype::basic(Basic::int_), Form::small));
  EXPECT_TRUE(type->is_contiguous());
  int data[18] = {};
  const auto whole = Cursor(*type, data, 3).single_segment();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->bytes, sizeof data);
}

TEST(Layout, TypesThatShareMembersAreCompiledOnce) {
  Ref<Datatype> type = Ref<Datatype>::share(&Datatype::basic(Basic::double_int));
  for (int i = 0; i < 40; ++i) {  // 2^40 pairs in all
    const int lengths[] = {1, 1};
    const std::int64_t displacements[] = {0, type->extent() + 16};
    Datatype* const types[] = {type.get(), type.get()};
    type = *struct_type(std::span<const int>(lengths), displacements, types, Form::small);
  }
  ASSERT_TRUE(type->commit());
  EXPECT_LT(type->layout().memory(), 65'536u);
  EXPECT_EQ(type->size(), 12ll << 40);
  EXPECT_EQ(type->elements_in(12ll << 39), 1ll << 40);
}

TEST(Layout, IsContiguousOnlyWhereElementsLieBackToBack) {
  Datatype& integer = Datatype::basic(Basic::int_);
  EXPECT_TRUE(integer.is_contiguous());
  EXPECT_FALSE(Datatype::basic(Basic::double_int).is_contiguous());
  EXPECT_TRUE(Datatype::basic(Basic::float_int).is_contiguous());
  EXPECT_TRUE(committed(contiguous_type(7, integer, Form::small))->is_contiguous());
  EXPECT_TRUE(committed(vector_type(4, 2, 2, integer, Form::small))->is_contiguous());
  EXPECT_FALSE(committed(vector_type(4, 2, 3, integer, Form::small))->is_contiguous());
  EXPECT_FALSE(committed(resized_type(0, 8, integer, Form::small))->is_contiguous());
  EXPECT_FALSE(committed(resized_type(0, 2, integer, Form::small))->is_contiguous());
  const std::int64_t four = 4;
  EXPECT_FALSE(committed(hindexed_block_type(1, {&four, 1}, integer, Form::small))->is_contiguous());
  EXPECT_TRUE(committed(contiguous_type(0, integer, Form::small))->is_contiguous());
}

TEST(Layout, AbsoluteAddressesWorkFromBottom) {
  int values[] = {1, 2, 3, 4};
  const int lengths[] = {1, 1};
  const std::int64_t addresses[] = {reinterpret_cast<std::int64_t>(&values[3]),
                                    reinterpret_cast<std::int64_t>(&values[1])};
  const Ref<Datatype> type = committed(
      hindexed_type(std::span<const int>(lengths), addresses, Datatype::basic(Basic::int_), Form::small));
  int packed[2];
  EXPECT_EQ(pack(*type, nullptr, 1, std::as_writable_bytes(std::span(packed))), sizeof packed);
  EXPECT_EQ(packed[0], 4);
  EXPECT_EQ(packed[1], 2);
}

TEST(Layout, AFreedTypeServesTheCursorsThatUseIt) {
  double data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  Ref<Datatype> type = committed(vector_type(4, 1, 2, Datatype::basic(Basic::double_), Form::small));
  Cursor cursor(*type, data, 1);
  type = nullptr;
  double packed[4];
  EXPECT_EQ(cursor.pack(std::as_writable_bytes(std::span(packed))), sizeof packed);
  EXPECT_EQ(packed[3], 6);
}

}  // namespace
}  // namespace isthmus::test::layout_test
