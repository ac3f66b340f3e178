// The tags of data that goes apart: 4 bits of type, 32 of process, 28 of counter, or another division.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "chare/data/tag.hpp"

namespace isthmus::chare::tag_test {
namespace {

using testing::HasSubstr;

TEST(ChareTag, HasTheDivisionOfThePaper) {
  const Result<Tags> tags = Tags::make({}, 1U << 31);
  ASSERT_TRUE(tags);
  EXPECT_EQ(tags->tag(TagType::buffer, 0x89abcdef, 0x7654321), 0x1'89abcdef'7654321U);
  EXPECT_EQ(tags->tag(TagType::mailbox, 0, 5), 0x2'00000000'0000005U);
  EXPECT_EQ(tags->counters(), std::uint64_t{1} << 28);
}

TEST(ChareTag, IsTakenApartAsItWasMade) {
  std::mt19937_64 random(3);
  for (const TagDivision division :
       {TagDivision{}, TagDivision{2, 14, 48}, TagDivision{16, 32, 16}, TagDivision{4, 20, 40}}) {
    const std::uint32_t processes = 1U << 14;
    const Result<Tags> tags = Tags::make(division, processes);
    ASSERT_TRUE(tags);
    for (int i = 0; i < 1000; ++i) {
      const auto type = random() % 2 == 0 ? TagType::buffer : TagType::mailbox;
      const auto source = static_cast<std::uint32_t>(random() % processes);
      const std::uint64_t counter = random() % tags->counters();
      const Result<TagParts> parts = tags->parts(tags->tag(type, source, counter));
      ASSERT_TRUE(parts);
      EXPECT_EQ(parts->type, type);
      EXPECT_EQ(parts->source, source);
      EXPECT_EQ(parts->counter, counter);
    }
  }
}

TEST(ChareTag, CounterBeginsAnewWithoutTouchingTheProcess) {
  const Result<Tags> tags = Tags::make({}, 16);
  ASSERT_TRUE(tags);
  EXPECT_EQ(tags->tag(TagType::buffer, 7, tags->counters() + 3), tags->tag(TagType::buffer, 7, 3));
}

TEST(ChareTag, KeysOfMessagesUnderWayDiffer) {
  const Result<Tags> tags = Tags::make({2, 14, 48}, 16);
  ASSERT_TRUE(tags);
  const auto key = [&](TagType type, std::uint64_t counter) {
    const Result<TagParts> parts = tags->parts(tags->tag(type, 3, counter));
    return parts ? Tags::key(*parts) : -1;
  };
  EXPECT_NE(key(TagType::buffer, 1), key(TagType::buffer, 2));
  EXPECT_NE(key(TagType::buffer, 1), key(TagType::mailbox, 1));
  const std::uint64_t all = std::uint64_t{1} << 28;
  EXPECT_NE(key(TagType::buffer, 5), key(TagType::buffer, all - 1 + 5));
  EXPECT_EQ(key(TagType::buffer, 5), key(TagType::buffer, all + 5));
  for (const std::uint64_t counter : {std::uint64_t{0}, all - 1, all, (std::uint64_t{1} << 48) - 1}) {
    EXPECT_GE(key(TagType::buffer, counter), 0) << counter;
    EXPECT_GE(key(TagType::mailbox, counter), 0) << counter;
  }
}

TEST(ChareTag, OfAPeerIsChecked) {
  const Result<Tags> tags = Tags::make({}, 4);
  ASSERT_TRUE(tags);
  const auto refused = [&](std::uint64_t tag) {
    const Result<TagParts> parts = tags->parts(tag);
    return parts ? std::string("taken") : parts.error().text();
  };
  EXPECT_THAT(refused(0), HasSubstr("no tag of type 0"));
  EXPECT_THAT(refused(~std::uint64_t{0}), HasSubstr("no tag of type 15"));
  EXPECT_THAT(refused(tags->tag(TagType::buffer, 4, 0)), HasSubstr("names process 4 of 4"));
  EXPECT_EQ(refused(tags->tag(TagType::buffer, 3, 0)), "taken");
}

TEST(ChareTag, DivisionWithoutRoomForTheProcessesIsRefused) {
  EXPECT_TRUE(Tags::make({4, 12, 48}, 4096));
  const Result<Tags> tags = Tags::make({4, 12, 48}, 4097);
  ASSERT_FALSE(tags);
  EXPECT_THAT(tags.error().text(), HasSubstr("4097 processes have no room in the 12 bits"));
}

}  // namespace
}  // namespace isthmus::chare::tag_test
