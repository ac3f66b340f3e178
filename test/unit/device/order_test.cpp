#include "device/request_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "device/refusal.hpp"

namespace isthmus::device::order_test {
namespace {

using testing::HasSubstr;

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
  const carry::Order order = order_of(request);
  EXPECT_EQ(order.offset, 2U);
  EXPECT_EQ(order.bytes, 3U);
  EXPECT_EQ(order.value, 4U);
  EXPECT_EQ(order.word, 5U);
  EXPECT_EQ(order.share, 7U);
  EXPECT_EQ(order.signal, 8U);
  EXPECT_EQ(std::to_underlying(order.kind), 9U);
  EXPECT_EQ(std::to_underlying(order.signals), 10U);
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
