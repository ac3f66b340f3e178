// Kernels bring the bytes of a message to where the host's cursors bring them, whatever the layouts.
#include <algorithm>
#include <memory>
#include <random>

#include "datatype/cursor.hpp"
#include "datatype_reference.hpp"
#include "kernels/body/move.hpp"
#include "kernels_fixture.hpp"
#include "p2p/gpu_copy/shapes.hpp"

namespace isthmus::testing_cuda::kernels_move_test {
namespace {

using test::Arena;
using test::BothWays;
using test::RandomTypes;
using test::Typemap;

class MoveKernels : public KernelTest {
 protected:
  /// The same bytes as in the arena, on the device.
  struct OnDevice {
    OnDevice(const cuda::Functions& functions, Arena& arena)
        : bytes(functions, arena.bytes().size()), base(bytes.data() + (arena.base() - arena.bytes().data())) {
      bytes.write(arena.bytes());
    }
    DeviceBytes bytes;
    std::byte* base;
  };

  Result<> move(const LaidOut& from, const LaidOut& to, std::uint64_t bytes) {
    auto copy = engine.start([&](cuda::Stream stream) { return kernels.move({0, stream}, from, to, bytes); });
    if (!copy) return std::unexpected(std::move(copy).error());
    return copy->wait();
  }

  static bool overlaps(const Typemap& map, std::int64_t count) {
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;
    for (std::int64_t i = 0; i < count; ++i)
      for (const test::Entry& entry : map.entries) {
        const std::int64_t begin = i * map.extent() + entry.displacement;
        runs.emplace_back(begin, begin + info(entry.basic).size);
      }
    std::ranges::sort(runs);
    for (std::size_t i = 1; i < runs.size(); ++i)
      if (runs[i].first < runs[i - 1].second) return true;
    return false;
  }

  /// Packs a part of a message, and unpacks it again.
  void check(const BothWays& both, std::int64_t count, RandomTypes& types) {
    const Datatype& type = *both.type;
    Arena arena(both.map, count);
    arena.fill(types.random());
    const auto size = static_cast<std::uint64_t>(type.size() * count);
    const auto begin = static_cast<std::uint64_t>(types.number(0, 3)) * size / 5;
    const std::uint64_t bytes = types.number(0, 1) != 0 ? size - begin : (size - begin) / 2;
    if (!GpuKernels::can_move({.data = arena.base(), .type = &type, .count = count})) {
      ++refused;
      return;
    }
    // The packed side begins anywhere.
    const auto shift = static_cast<std::size_t>(types.number(0, 17));
    OnDevice device(functions, arena);
    std::vector<std::byte> packed(bytes + shift + 32, std::byte{0x5a});
    DeviceBytes packed_there(functions, packed.size());
    packed_there.write(packed);
    const LaidOut message{.data = device.base, .type = &type, .count = count, .position = begin};
    const LaidOut run{.data = packed_there.data() + shift};
    auto done = move(message, run, bytes);
    ASSERT_TRUE(done) << done.error().text();
    Cursor cursor(type, arena.base(), count);
    cursor.seek(begin);
    cursor.pack({packed.data() + shift, bytes});
    ASSERT_TRUE(packed_there.read() == packed);

    if (overlaps(both.map, count)) return;
    for (std::byte& byte : packed)
      byte = static_cast<std::byte>(types.random()());
    packed_there.write(packed);
    done = move(run, message, bytes);
    ASSERT_TRUE(done) << done.error().text();
    cursor.seek(begin);
    cursor.unpack({packed.data() + shift, bytes});
    ASSERT_TRUE(device.bytes.read() == arena.bytes());
    ++unpacked;
  }

  int unpacked = 0;
  int refused = 0;
};

TEST_F(MoveKernels, PackAndUnpackWhatTheHostDoesForRandomTypes) {
  int checked = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    RandomTypes types(seed);
    for (int round = 0; round < 40; ++round, ++checked) {
      const BothWays both = types.make(1 + round % 5);
      ASSERT_TRUE(both.type->commit());
      check(both, types.number(1, 4), types);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(unpacked, checked / 10);
  EXPECT_LT(refused, checked / 10) << "kernels go through nearly all of them";
}

TEST_F(MoveKernels, GoFromOneLayoutToAnother) {
  const auto vector = vector_type(300, 3, 7, Datatype::basic(Basic::double_), Form::small);
  const std::array<int, 3> lengths{5, 1, 3};
  const std::array<int, 3> places{0, 9, 30};
  const auto indexed = indexed_type(std::span<const int>(lengths), std::span<const int>(places),
                                    Datatype::basic(Basic::double_), Form::small);
  ASSERT_TRUE(vector && indexed);
  ASSERT_TRUE((*vector)->commit() && (*indexed)->commit());
  std::mt19937 random(3);
  std::vector<std::byte> from(300UL * 7 * 8);
  std::vector<std::byte> to(100UL * 33 * 8);
  for (std::byte& byte : from)
    byte = static_cast<std::byte>(random());
  DeviceBytes source(functions, from.size());
  DeviceBytes target(functions, to.size());
  source.write(from);
  target.write(to);
  ASSERT_TRUE(move({.data = source.data(), .type = vector->get(), .count = 1},
                   {.data = target.data(), .type = indexed->get(), .count = 100}, 7200));
  copy(**vector, from.data(), 1, **indexed, to.data(), 100);
  EXPECT_TRUE(target.read() == to);
}

TEST_F(MoveKernels, ReadWhatAPeerTellsOfItsLayout) {
  // Rows back to front of a part of a matrix, twice.
  const auto row = vector_type(5, 1, 3, Datatype::basic(Basic::int_), Form::small);
  ASSERT_TRUE(row);
  const auto rows = hvector_type(7, 1, -80, **row, Form::small);
  const auto vector = vector_type(30, 3, 7, Datatype::basic(Basic::int_), Form::small);
  ASSERT_TRUE(rows && vector);
  ASSERT_TRUE((*rows)->commit() && (*vector)->commit());
  std::mt19937 random(5);
  std::vector<std::byte> from(4000);
  std::vector<std::byte> to(30UL * 7 * 4);
  for (std::byte& byte : from)
    byte = static_cast<std::byte>(random());
  DeviceBytes source(functions, from.size());
  DeviceBytes target(functions, to.size());
  source.write(from);
  target.write(to);
  constexpr int count = 2;
  constexpr std::uint64_t bytes = count * 7 * 5 * 4;
  constexpr std::ptrdiff_t begin = 1000;
  const auto shaped = shaped_payload(Payload::of(source.data() + begin, count, **rows));
  ASSERT_TRUE(shaped);
  EXPECT_TRUE(wire::span_of(shaped->shape, bytes));
  auto copy_there = engine.start([&](cuda::Stream stream) {
    return kernels.move({0, stream}, side_of(shaped->first, shaped->shape),
                        {.data = target.data(), .type = vector->get(), .count = 1}, bytes);
  });
  ASSERT_TRUE(copy_there);
  ASSERT_TRUE(copy_there->wait());
  copy(**rows, from.data() + begin, count, **vector, to.data(), 1);
  EXPECT_TRUE(target.read() == to);
}

TEST_F(MoveKernels, FollowSubarraysOfFourDimensionsManyTimes) {
  const std::array<int, 4> sizes{5, 6, 7, 8};
  const std::array<int, 4> parts{3, 2, 4, 5};
  const std::array<int, 4> starts{1, 3, 2, 2};
  const auto type =
      subarray_type(std::span<const int>(sizes), std::span<const int>(parts), std::span<const int>(starts),
                    ArrayOrder::fortran, Datatype::basic(Basic::float_), Form::small);
  ASSERT_TRUE(type && (*type)->commit());
  RandomTypes types(9);
  Typemap map;
  for (int i = 0; i < 120; ++i) {
    const int a = i % 3 + 1;
    const int b = i / 3 % 2 + 3;
    const int c = i / 6 % 4 + 2;
    const int d = i / 24 + 2;
    map.append(Typemap::of(Basic::float_), 4L * (a + 5 * (b + 6 * (c + 7 * d))));
  }
  const BothWays both{*type, Typemap::resized(map, 0, 4L * 5 * 6 * 7 * 8)};
  for (int i = 0; i < 8; ++i)
    check(both, 3, types);
  EXPECT_EQ(refused, 0);
}

TEST_F(MoveKernels, KeepTheBlocksOfATypeForItsNextMessage) {
  const std::array<std::int64_t, 4> places{0, 8, 20, 21};
  const auto type = hindexed_block_type(1, places, Datatype::basic(Basic::int8), Form::small);
  ASSERT_TRUE(type && (*type)->commit());
  const DeviceBytes source(functions, 4096);
  const DeviceBytes target(functions, 4096);
  const LaidOut from{.data = source.data(), .type = type->get(), .count = 2};
  ASSERT_TRUE(move(from, {.data = target.data()}, 8));
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t all = 0;
  ASSERT_EQ(functions.memory_info(&before, &all), cuda::Status::success);
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(move(from, {.data = target.data()}, 8));
  ASSERT_EQ(functions.memory_info(&after, &all), cuda::Status::success);
  EXPECT_EQ(before, after);
}

TEST_F(MoveKernels, CopyPiecesOfAnyLengthAndAlignment) {
  std::mt19937 random(5);
  constexpr std::size_t room = 300'000;
  std::vector<std::byte> from(room);
  std::vector<std::byte> to(room);
  for (std::byte& byte : from)
    byte = static_cast<std::byte>(random());
  DeviceBytes source(functions, room);
  DeviceBytes target(functions, room);
  source.write(from);
  target.write(to);
  for (const std::size_t pieces : {1U, 2U, 5U, 16U}) {
    std::vector<CopyPiece> list;
    std::size_t at = random() % 5;
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::size_t bytes = i % 3 == 1 ? random() % 40 : random() % (room / pieces - 40);
      const std::size_t begin = random() % (room - bytes);
      list.push_back({target.data() + at, source.data() + begin, bytes});
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(begin), bytes,
                  to.begin() + static_cast<std::ptrdiff_t>(at));
      at += bytes + random() % 3;
    }
    auto copy = engine.start([&](cuda::Stream stream) { return kernels.copy({0, stream}, list); });
    ASSERT_TRUE(copy) << copy.error().text();
    ASSERT_TRUE(copy->wait());
    ASSERT_TRUE(target.read() == to);
  }
}

TEST_F(MoveKernels, SayWhyThereAreNone) {
  GpuKernels none(contexts, {});
  EXPECT_THAT(none.trouble(0), testing::HasSubstr("built without nvcc"));
  const DeviceBytes memory(functions, 64);
  const CopyPiece piece{memory.data(), memory.data() + 32, 8};
  const auto copy = engine.start([&](cuda::Stream stream) { return none.copy({0, stream}, {&piece, 1}); });
  ASSERT_FALSE(copy);
  EXPECT_THAT(copy.error().text(), testing::HasSubstr("built without nvcc"));
}

TEST(MoveDivider, DividesAsDivisionDoes) {
  constexpr std::uint32_t most = (1U << 31U) - 1;
  std::mt19937 random(11);
  const auto check = [&](std::uint32_t divisor) {
    const auto by = kernel::Divider::by(divisor);
    for (const std::uint32_t number : {0U, 1U, divisor - 1, divisor, divisor + 1, most - 1, most})
      ASSERT_EQ(by(std::min(number, most)), std::min(number, most) / divisor) << number << " by " << divisor;
    for (int i = 0; i < 100; ++i) {
      const std::uint32_t number = random() & most;
      ASSERT_EQ(by(number), number / divisor) << number << " by " << divisor;
    }
  };
  for (std::uint32_t divisor = 1; divisor < 2000; ++divisor)
    check(divisor);
  for (unsigned bit = 11; bit < 31; ++bit)
    for (const std::uint32_t divisor : {(1U << bit) - 1, 1U << bit, (1U << bit) + 1,
                                        static_cast<std::uint32_t>(random() % (1U << bit)) + 1})
      check(divisor);
  check(most);
  EXPECT_EQ(kernel::Divider::never()(most), 0U);
}

}  // namespace
}  // namespace isthmus::testing_cuda::kernels_move_test
