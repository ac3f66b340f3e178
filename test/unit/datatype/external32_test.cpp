// external32 is the standard's byte for byte, and comes back whole.

#include "datatype/external32.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include "datatype/cursor.hpp"
#include "datatype/make/unnamed.hpp"
#include "datatype_reference.hpp"

namespace isthmus::test::external32_test {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values)
    result.push_back(static_cast<std::byte>(value));
  return result;
}

template <class T>
std::vector<std::byte> packed(Basic basic, const T& value) {
  const Datatype& type = Datatype::basic(basic);
  std::vector<std::byte> out(static_cast<std::size_t>(*external32_size(type, 1)));
  EXPECT_EQ(*pack_external32(type, &value, 1, out), out.size());
  T back{};
  EXPECT_EQ(*unpack_external32(type, &back, 1, out), out.size());
  EXPECT_EQ(back, value);
  return out;
}

TEST(External32, IntegersAreBigEndian) {
  EXPECT_EQ(packed(Basic::int_, std::int32_t{-2}), bytes({0xff, 0xff, 0xff, 0xfe}));
  EXPECT_EQ(packed(Basic::int16, std::int16_t{0x1234}), bytes({0x12, 0x34}));
  EXPECT_EQ(packed(Basic::uint64, std::uint64_t{1}), bytes({0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(packed(Basic::byte, std::uint8_t{200}), bytes({200}));
}

TEST(External32, LongsHaveFourBytes) {
  EXPECT_EQ(packed(Basic::long_, -2l), bytes({0xff, 0xff, 0xff, 0xfe}));
  EXPECT_EQ(packed(Basic::unsigned_long, 0xfffffffful), bytes({0xff, 0xff, 0xff, 0xff}));
  EXPECT_EQ(packed(Basic::wchar, L'\u20ac'), bytes({0x20, 0xac}));
}

TEST(External32, ValuesThatDoNotFitAreAnError) {
  std::array<std::byte, 16> out;
  const auto class_of = [&](Basic basic, const void* value) {
    const auto written = pack_external32(Datatype::basic(basic), value, 1, out);
    return written ? ErrorClass::success : written.error().error_class();
  };
  const long big = 1l << 31;
  const unsigned long bigger = 1ul << 32;
  const wchar_t clef = static_cast<wchar_t>(0x1d11e);
  EXPECT_EQ(class_of(Basic::long_, &big), ErrorClass::conversion);
  EXPECT_EQ(class_of(Basic::unsigned_long, &bigger), ErrorClass::conversion);
  EXPECT_EQ(class_of(Basic::wchar, &clef), ErrorClass::conversion);
}

TEST(External32, FloatsAreIeee) {
  EXPECT_EQ(packed(Basic::float_, -1.5f), bytes({0xbf, 0xc0, 0, 0}));
  EXPECT_EQ(packed(Basic::double_, 1.0), bytes({0x3f, 0xf0, 0, 0, 0, 0, 0, 0}));
  const std::array<float, 2> complex{1.0f, -2.0f};
  EXPECT_EQ(packed(Basic::c_float_complex, complex), bytes({0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0}));
}

TEST(External32, LongDoublesAreBinary128) {
  EXPECT_EQ(packed(Basic::long_double, 1.0l), bytes({0x3f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(packed(Basic::long_double, -0.75l),
            bytes({0xbf, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  packed(Basic::long_double, std::numeric_limits<long double>::max());
  packed(Basic::long_double, std::numeric_limits<long double>::denorm_min());
}

TEST(External32, PairsHaveNoGaps) {
  struct {
    double value = 1.0;
    int index = 7;
  } pair;
  std::array<std::byte, 12> out;
  EXPECT_EQ(*pack_external32(Datatype::basic(Basic::double_int), &pair, 1, out), 12u);
  EXPECT_EQ(out[0], std::byte{0x3f});
  EXPECT_EQ(out[11], std::byte{7});
}

TEST(External32, SizesAreTheStandards) {
  const auto size = [](Basic basic) { return *external32_size(Datatype::basic(basic), 1); };
  EXPECT_EQ(size(Basic::aint), 8);
  EXPECT_EQ(size(Basic::c_long_double_complex), 32);
  EXPECT_EQ(size(Basic::logical), 4);
  EXPECT_EQ(size(Basic::c_bool), 1);
  EXPECT_EQ(size(Basic::long_int), 8);
  F90Types types;
  EXPECT_EQ(*external32_size(**types.real(16, unspecified), 2), 32);
  const auto wide = contiguous_type(1ll << 61, Datatype::basic(Basic::char_), Form::large);
  EXPECT_EQ(external32_size(**wide, 8).error().error_class(), ErrorClass::count);
}

TEST(External32, ShortBuffersAreAnError) {
  const int value = 1;
  std::array<std::byte, 3> out;
  EXPECT_EQ(pack_external32(Datatype::basic(Basic::int_), &value, 1, out).error().error_class(),
            ErrorClass::truncate);
  int back = 0;
  EXPECT_EQ(unpack_external32(Datatype::basic(Basic::int_), &back, 1, out).error().error_class(),
            ErrorClass::truncate);
}

/// Random bytes make no longs of 32 bits and no canonical long doubles, so those are set.
void make_representable(const Typemap& map, std::byte* base, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (const Entry& entry : map.entries) {
      std::byte* const at = base + i * map.extent() + entry.displacement;
      if (entry.basic == Basic::long_) {
        const long value = -123 * i;
        std::memcpy(at, &value, sizeof value);
      } else if (entry.basic == Basic::long_double) {
        std::memset(at, 0, 16);
        const long double value = 1.0l / static_cast<long double>(3 + i);
        std::memcpy(at, &value, 10);
      }
    }
  }
}

TEST(External32, RandomTypesComeBackWhole) {
  RandomTypes types(99);
  int compared = 0;
  for (int round = 0; round < 300; ++round) {
    BothWays both = types.make(1 + round % 4);
    const std::int64_t count = types.number(1, 3);
    Arena source(both.map, count), target(both.map, count);
    source.fill(types.random());
    make_representable(both.map, source.base(), count);
    std::vector<std::byte> out(static_cast<std::size_t>(*external32_size(*both.type, count)));
    const auto written = pack_external32(*both.type, source.base(), count, out);
    if (!written) {  // overlapping entries can spoil a long again
      ASSERT_EQ(written.error().error_class(), ErrorClass::conversion);
      continue;
    }
    ASSERT_EQ(*written, out.size());
    ASSERT_EQ(*unpack_external32(*both.type, target.base(), count, out), out.size());
    std::vector<std::byte> again(out.size());
    const auto rewritten = pack_external32(*both.type, target.base(), count, again);
    ASSERT_TRUE(rewritten || rewritten.error().error_class() == ErrorClass::conversion);
    std::vector<Entry> sorted = both.map.entries;
    std::sort(sorted.begin(), sorted.end(),
              [](const Entry& a, const Entry& b) { return a.displacement < b.displacement; });
    bool overlaps = count > 1 && both.map.extent() < both.map.true_ub() - both.map.true_lb();
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      overlaps |= sorted[i - 1].displacement + info(sorted[i - 1].basic).size > sorted[i].displacement;
    }
    if (overlaps) continue;
    ASSERT_EQ(again, out);
    ASSERT_EQ(both.map.pack(target.base(), count), both.map.pack(source.base(), count));
    ++compared;
  }
  EXPECT_GT(compared, 60);
}

}  // namespace
}  // namespace isthmus::test::external32_test
