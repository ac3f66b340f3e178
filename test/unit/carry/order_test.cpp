#include "carry/order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace isthmus::carry::order_test {
namespace {

using testing::HasSubstr;

constexpr std::array<std::size_t, 2> shares{100, 0};
const Limits limits{.signals = 4, .shares = shares, .asks = "a kernel", .late = "too late"};
constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

Order put(std::uint32_t share, std::uint64_t offset, std::uint64_t bytes) {
  return {.offset = offset, .bytes = bytes, .share = share, .kind = Kind::put};
}

TEST(CarryOrder, WhatLiesWithinIsRight) {
  EXPECT_TRUE(check(put(0, 0, 100), limits));
  EXPECT_TRUE(check(put(0, 100, 0), limits));
  EXPECT_TRUE(check(put(1, 0, 0), limits));
  Order order = put(0, 60, 40);
  order.kind = Kind::get;
  EXPECT_TRUE(check(order, limits));
}

TEST(CarryOrder, WhatDoesNotLieWithinIsRefused) {
  for (const Order& wrong : {put(0, 0, 101), put(0, 101, 0), put(0, most, 2), put(0, 2, most), put(1, 0, 1),
                             put(2, 0, 0), put(0xffff'ffff, 0, 0)}) {
    const auto checked = check(wrong, limits);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().error_class(), ErrorClass::arg);
    EXPECT_THAT(checked.error().text(), HasSubstr("too late"));
  }
}

TEST(CarryOrder, SignalsAreCheckedToo) {
  Order order{.signal = 3, .kind = Kind::signal, .signals = Signal::line};
  EXPECT_TRUE(check(order, limits));
  order.signal = 4;
  EXPECT_FALSE(check(order, limits));
  order.signal = 0;
  for (const Signal wrong : {Signal::none, Signal::add, static_cast<Signal>(9)}) {
    order.signals = wrong;
    EXPECT_FALSE(check(order, limits)) << static_cast<int>(wrong);
  }
  Order behind = put(0, 0, 8);
  behind.signals = Signal::set;
  behind.signal = 4;
  EXPECT_FALSE(check(behind, limits));
  EXPECT_FALSE(check(Order{.kind = Kind::left}, limits));
}

TEST(CarryInOrder, CountsOnlyWhatHasNothingOpenBefore) {
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

}  // namespace
}  // namespace isthmus::carry::order_test
