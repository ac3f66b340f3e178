#include "comm/info.hpp"

#include <gtest/gtest.h>

namespace isthmus::info_test {
namespace {

TEST(Info, KeepsKeysInTheOrderInWhichTheyWereFirstSet) {
  Ref<Info> info = make_ref<Info>();
  info->set("b", "1");
  info->set("a", "2");
  info->set("b", "3");
  ASSERT_EQ(info->size(), 2U);
  EXPECT_EQ(info->entry(0), Info::Entry("b", "3"));
  EXPECT_EQ(info->entry(1), Info::Entry("a", "2"));
}

TEST(Info, FindsAndErasesKeysExactly) {
  Ref<Info> info = make_ref<Info>();
  info->set("key", "value");
  EXPECT_EQ(info->find("ke"), nullptr);
  EXPECT_EQ(info->find("KEY"), nullptr);
  ASSERT_NE(info->find("key"), nullptr);
  EXPECT_EQ(*info->find("key"), "value");
  EXPECT_FALSE(info->erase("other"));
  EXPECT_TRUE(info->erase("key"));
  EXPECT_FALSE(info->erase("key"));
  EXPECT_EQ(info->size(), 0U);
}

TEST(Info, ADuplicateIsIndependent) {
  Ref<Info> info = make_ref<Info>(std::initializer_list<Info::Entry>{{"a", "1"}});
  Ref<Info> copy = info->duplicate();
  info->set("a", "2");
  EXPECT_EQ(*copy->find("a"), "1");
}

}  // namespace
}  // namespace isthmus::info_test
