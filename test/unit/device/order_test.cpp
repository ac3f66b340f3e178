#include "device/order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "device/refusal.hpp"

namespace isthmus::device::order_test {
namespace {

using testing::HasSubstr;

constexpr std::array<std::size_t, 2> shares{100, 0};
constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

Order put(std::uint32_t share, std::uint64_t offset, std::uint64_t bytes) {
  return {.offset = offset, .bytes = bytes, .share = share, .kind = ISTHMUS_DEVICE_PUT};
}

TEST(DeviceOrder, WhatLiesWithinIsRight) {
  EXPECT_TRUE(check(put(0, 0, 100), 4, shares));
  EXPECT_TRUE(check(put(0, 100, 0), 4, shares));
  EXPECT_TRUE(check(put(1, 0, 0), 4, shares));
  Order order = put(0, 60, 40);
  order.kind = ISTHMUS_DEVICE_GET;
  EXPECT_TRUE(check(order, 4, shares));
}

TEST(DeviceOrder, WhatDoesNotLieWithinIsRefused) {
  for (const Order& wrong : {put(0, 0, 101), put(0, 101, 0), put(0, most, 2), put(0, 2, most), put(1, 0, 1),
                             put(2, 0, 0), put(0xffff'ffff, 0, 0)}) {
    const auto checked = check(wrong, 4, shares);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().error_class(), ErrorClass::arg);
    EXPECT_THAT(checked.error().text(), HasSubstr("isthmus_device_unshare"));
  }
}

TEST(DeviceOrder, SignalsAreCheckedToo) {
  Order order{.signal = 3, .kind = ISTHMUS_DEVICE_SIGNAL, .signals = ISTHMUS_DEVICE_LINE};
  EXPECT_TRUE(check(order, 4, shares));
  order.signal = 4;
  EXPECT_FALSE(check(order, 4, shares));
  order.signal = 0;
  for (const unsigned wrong : {0U, ISTHMUS_DEVICE_ADD, 9U}) {
    order.signals = static_cast<std::uint16_t>(wrong);
    EXPECT_FALSE(check(order, 4, shares)) << wrong;
  }
  Order behind = put(0, 0, 8);
  behind.signals = ISTHMUS_DEVICE_SET;
  behind.signal = 4;
  EXPECT_FALSE(check(behind, 4, shares));
  EXPECT_FALSE(check(Order{.kind = ISTHMUS_DEVICE_WAIT}, 4, shares));
}

TEST(DeviceOrder, KeepsWhatTheRequestSays) {
  const isthmus_device_request request{.local = 1,
                                       .offset = 2,
                                       .bytes = 3,
                                       .value = 4,
                                       .word = 5,
                                       .rank = 6,
                                       .share = 7,
                                       .signal = 8,
                                       .kind = 9,
                                       .signals = 10,
                                       .number = 11};
  const Order order = order_of(request);
  EXPECT_EQ(order.offset, 2U);
  EXPECT_EQ(order.bytes, 3U);
  EXPECT_EQ(order.value, 4U);
  EXPECT_EQ(order.word, 5U);
  EXPECT_EQ(order.share, 7U);
  EXPECT_EQ(order.signal, 8U);
  EXPECT_EQ(order.kind, 9U);
  EXPECT_EQ(order.signals, 10U);
}

TEST(DeviceInOrder, CountsOnlyWhatHasNothingOpenBefore) {
  InOrder numbers;
  EXPECT_TRUE(numbers.is_idle());
  EXPECT_EQ(numbers.ended(), 0U);
  for (std::uint64_t i = 1; i <= 4; ++i)
    EXPECT_EQ(numbers.begin(), i);
  numbers.end(2);
  EXPECT_EQ(numbers.ended(), 0U);
  numbers.end(4);
  numbers.end(1);
  EXPECT_EQ(numbers.ended(), 2U);
  EXPECT_FALSE(numbers.is_idle());
  EXPECT_EQ(numbers.begin(), 5U);
  numbers.end(3);
  EXPECT_EQ(numbers.ended(), 4U);
  numbers.end(5);
  EXPECT_EQ(numbers.ended(), 5U);
  EXPECT_TRUE(numbers.is_idle());
  EXPECT_EQ(numbers.begin(), 6U);
}

TEST(DeviceRefusal, SaysWhatWasWrongWithWhich) {
  isthmus_device_control noted{};
  noted.why = ISTHMUS_DEVICE_BAD_RANGE;
  noted.what = ISTHMUS_DEVICE_PUT;
  noted.rank = 3;
  noted.number = 2;
  noted.offset = 40;
  noted.bytes = 8;
  EXPECT_EQ(
      refusal(noted).text(),
      "a kernel's put of 8 bytes at 40 does not lie within what rank 3 shares under 2: nothing was copied");
  noted.why = ISTHMUS_DEVICE_BAD_RANK;
  noted.rank = static_cast<unsigned long long>(-1LL);
  EXPECT_THAT(refusal(noted).text(), HasSubstr("names rank -1"));
  EXPECT_EQ(refusal(noted).error_class(), ErrorClass::rank);
}

TEST(DeviceRefusal, HasASentenceForEachReason) {
  std::vector<std::string> texts;
  for (unsigned why = ISTHMUS_DEVICE_BAD_RANK; why <= ISTHMUS_DEVICE_BAD_ROLE; ++why) {
    isthmus_device_control noted{};
    noted.why = why;
    noted.what = ISTHMUS_DEVICE_WAIT;
    const Error error = refusal(noted);
    EXPECT_NE(error.error_class(), ErrorClass::intern) << why;
    for (const std::string& other : texts)
      EXPECT_NE(error.text(), other);
    texts.push_back(error.text());
  }
}

}  // namespace
}  // namespace isthmus::device::order_test
