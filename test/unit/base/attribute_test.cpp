#include "base/attributes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace isthmus::attribute_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uintptr_t owner = 0xabc;

void* value_of(std::uintptr_t number) {
  return reinterpret_cast<void*>(number);
}

/// Keyvals whose callbacks write down what they are asked.
class Attributes : public testing::Test {
 protected:
  Ref<Keyval> keyval(int number, ErrorClass copy_error = ErrorClass::success, bool copied = true) {
    return make_ref<Keyval>(
        number, AttributeOwner::communicator,
        [=, this](std::uintptr_t handle, int keyval, void* value) -> Result<std::optional<void*>> {
          EXPECT_EQ(handle, owner);
          log.push_back("copy " + std::to_string(keyval));
          if (copy_error != ErrorClass::success) return fail(copy_error);
          return copied ? std::optional(value) : std::nullopt;
        },
        [this](std::uintptr_t handle, int keyval, void* value) -> Result<> {
          EXPECT_EQ(handle, owner);
          log.push_back("delete " + std::to_string(keyval) + " of " +
                        std::to_string(reinterpret_cast<std::uintptr_t>(value)));
          if (keyval == refusing) return fail(ErrorClass::other, "no");
          return {};
        });
  }

  AttributeSet set;
  std::vector<std::string> log;
  int refusing = -1;  ///< keyval whose delete callback fails
};

TEST_F(Attributes, SettingAgainDeletesTheOldValueFirst) {
  const Ref<Keyval> key = keyval(1);
  ASSERT_TRUE(set.set(key, value_of(10), owner));
  EXPECT_THAT(log, IsEmpty());
  ASSERT_TRUE(set.set(key, value_of(20), owner));
  EXPECT_THAT(log, ElementsAre("delete 1 of 10"));
  EXPECT_EQ(set.find(*key), value_of(20));
  EXPECT_EQ(set.size(), 1U);
}

TEST_F(Attributes, TheValueZeroIsAValue) {
  const Ref<Keyval> key = keyval(1);
  EXPECT_FALSE(set.find(*key).has_value());
  ASSERT_TRUE(set.set(key, nullptr, owner));
  ASSERT_TRUE(set.find(*key).has_value());
  EXPECT_EQ(*set.find(*key), nullptr);
}

TEST_F(Attributes, ClearDeletesTheLastSetFirst) {
  for (int number = 1; number <= 3; ++number)
    ASSERT_TRUE(set.set(keyval(number), value_of(static_cast<std::uintptr_t>(number)), owner));
  ASSERT_TRUE(set.clear(owner));
  EXPECT_THAT(log, ElementsAre("delete 3 of 3", "delete 2 of 2", "delete 1 of 1"));
  EXPECT_TRUE(set.empty());
}

TEST_F(Attributes, ARefusedDeletionLeavesTheAttributeAndStopsClear) {
  const Ref<Keyval> first = keyval(1);
  const Ref<Keyval> second = keyval(2);
  ASSERT_TRUE(set.set(first, value_of(1), owner));
  ASSERT_TRUE(set.set(second, value_of(2), owner));
  refusing = 2;
  EXPECT_FALSE(set.erase(*second, owner));
  EXPECT_FALSE(set.set(second, value_of(9), owner));
  EXPECT_FALSE(set.clear(owner));
  EXPECT_EQ(set.find(*second), value_of(2));
  EXPECT_EQ(set.find(*first), value_of(1));
}

TEST_F(Attributes, CopiesWhatTheCallbacksLetPass) {
  const Ref<Keyval> kept = keyval(1);
  const Ref<Keyval> dropped = keyval(2, ErrorClass::success, false);
  const Ref<Keyval> never =
      make_ref<Keyval>(3, AttributeOwner::communicator, Keyval::Copy{}, Keyval::Delete{});
  for (const Ref<Keyval>& key : {kept, dropped, never})
    ASSERT_TRUE(set.set(key, value_of(7), owner));
  AttributeSet copy;
  ASSERT_TRUE(set.copy_to(copy, owner));
  EXPECT_THAT(log, ElementsAre("copy 1", "copy 2"));
  EXPECT_EQ(copy.size(), 1U);
  EXPECT_EQ(copy.find(*kept), value_of(7));
}

TEST_F(Attributes, AnErrorOfACopyCallbackEndsTheCopy) {
  ASSERT_TRUE(set.set(keyval(1, ErrorClass::info_nokey), value_of(1), owner));
  AttributeSet copy;
  const Result<> copied = set.copy_to(copy, owner);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().error_class(), ErrorClass::info_nokey);
}

TEST_F(Attributes, AnAttributeKeepsItsKeyvalAlive) {
  Ref<Keyval> key = keyval(1);
  ASSERT_TRUE(set.set(key, value_of(1), owner));
  key = nullptr;
  ASSERT_TRUE(set.clear(owner));
  EXPECT_THAT(log, ElementsAre("delete 1 of 1"));
}

TEST_F(Attributes, ADeleteCallbackMayDeleteAndSetOthers) {
  const Ref<Keyval> other = keyval(2);
  const Ref<Keyval> meddling = make_ref<Keyval>(1, AttributeOwner::communicator, Keyval::Copy{},
                                                [&](std::uintptr_t handle, int, void*) -> Result<> {
                                                  ISTHMUS_TRY(set.erase(*other, handle));
                                                  return set.set(keyval(3), value_of(3), handle);
                                                });
  ASSERT_TRUE(set.set(other, value_of(2), owner));
  ASSERT_TRUE(set.set(meddling, value_of(1), owner));
  ASSERT_TRUE(set.clear(owner));
  EXPECT_THAT(log, ElementsAre("delete 2 of 2", "delete 3 of 3"));
  EXPECT_TRUE(set.empty());
}

}  // namespace
}  // namespace isthmus::attribute_test
