#include "vrank/environment.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace isthmus::vrank {
namespace {

/// An array as `environ`, which a rank changes.
class EnvironmentOfARank : public testing::Test {
 protected:
  ~EnvironmentOfARank() override { std::free(static_cast<void*>(grown)); }
  void put(char* entry) { ASSERT_TRUE(put_variable(array, grown, entry)); }
  std::string value(std::string_view name) {
    const char* const found = find_variable(array, name);
    return found ? found : "none";
  }

  std::array<char, 8> a{"A=1"}, ab{"AB=2"}, other_a{"A=3"}, c{"C="}, d{"D=4"};
  std::array<char*, 3> first{a.data(), ab.data(), nullptr};
  char** array = first.data();
  char** grown = nullptr;
};

TEST_F(EnvironmentOfARank, NamesAreWhole) {
  EXPECT_EQ(value("A"), "1");
  EXPECT_EQ(value("AB"), "2");
  EXPECT_EQ(value("B"), "none");
  EXPECT_EQ(value(""), "none");
}

TEST_F(EnvironmentOfARank, TakesTheCallersTextInPlaceOfWhatWasThere) {
  put(other_a.data());
  EXPECT_EQ(find_variable(array, "A"), other_a.data() + 2);
  EXPECT_EQ(value("AB"), "2");
  EXPECT_EQ(array, first.data()) << "no need for another array";
}

TEST_F(EnvironmentOfARank, Grows) {
  put(c.data());
  put(d.data());
  EXPECT_EQ(value("A") + value("AB") + value("C") + value("D"), "124");
  EXPECT_EQ(array, grown);
  EXPECT_EQ(first.back(), nullptr) << "what it began with is not written beyond its end";
}

TEST_F(EnvironmentOfARank, Shrinks) {
  put(d.data());
  remove_variable(array, "AB");
  remove_variable(array, "B");
  EXPECT_EQ(value("A") + value("AB") + value("D"), "1none4");
  remove_variable(array, "A");
  remove_variable(array, "D");
  EXPECT_EQ(*array, nullptr);
}

TEST_F(EnvironmentOfARank, MayBeNone) {
  array = nullptr;
  EXPECT_EQ(value("A"), "none");
  remove_variable(array, "A");
  put(d.data());
  EXPECT_EQ(value("D"), "4");
}

TEST(EnvironmentsOfRanks, HaveWhatIsCommonAndTheirOwn) {
  ::setenv("ISTHMUS_WORKERS", "7", 1);
  auto made = environments_from("ISTHMUS_RANK=1\nPATH=x\n\nISTHMUS_RANK=2\n");
  ::unsetenv("ISTHMUS_WORKERS");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].get("ISTHMUS_RANK"), "1");
  EXPECT_EQ(made[1].get("ISTHMUS_RANK"), "2");
  EXPECT_EQ(made[0].get("PATH"), "x");
  EXPECT_EQ(made[1].get("PATH"), std::getenv("PATH"));
  EXPECT_EQ(made[0].get("ISTHMUS_WORKERS"), std::nullopt);
  EXPECT_EQ(std::string_view(find_variable(made[1].pointers(), "ISTHMUS_RANK")), "2");
}

}  // namespace
}  // namespace isthmus::vrank
