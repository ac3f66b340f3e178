#include <type_traits>

#include "pmi_dialects.hpp"

// What a rank may expect of its launcher, whichever PMI that speaks.
namespace isthmus::launch::pmi_test {
namespace {

using testing::HasSubstr;
using testing::Le;

template <class Dialect>
class Pmi : public testing::Test {};

struct DialectName {
  template <class Dialect>
  static std::string GetName(int /*index*/) {
    return std::string(Dialect::facts().protocol);
  }
};

using Dialects = testing::Types<Pmi1Dialect, Pmi2Dialect>;
TYPED_TEST_SUITE(Pmi, Dialects, DialectName);

std::string any_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<char>(i * 37 + (i >> 8));
  return bytes;
}

TYPED_TEST(Pmi, TellsWhatTheLauncherSays) {
  const JobFacts said = TypeParam::facts();
  PmiServer server(TypeParam::framing, typename TypeParam::Launcher());
  const auto space = TypeParam::Client::connect(server.place(said.rank, said.size));
  ASSERT_TRUE(space) << space.error().text();
  EXPECT_EQ((*space)->protocol(), said.protocol);
  EXPECT_EQ((*space)->rank(), said.rank);
  EXPECT_EQ((*space)->size(), said.size);
  EXPECT_EQ((*space)->universe(), said.universe);
  EXPECT_EQ((*space)->appnum(), said.appnum);
  EXPECT_EQ((*space)->job(), said.job);
}

TYPED_TEST(Pmi, ReturnsValuesOfAnyBytesAndLength) {
  PmiServer server(TypeParam::framing, typename TypeParam::Launcher());
  const auto space = TypeParam::Client::connect(server.place());
  ASSERT_TRUE(space) << space.error().text();
  for (const std::size_t bytes : {0, 1, 2, 3, 15, 16, 700, 742, 743, 767, 768, 5000}) {
    const std::string key = "of-" + std::to_string(bytes);
    ASSERT_TRUE((*space)->put(key, any_bytes(bytes)));
    ASSERT_TRUE((*space)->fence());
    const auto value = (*space)->get(0, key);
    ASSERT_TRUE(value) << value.error().text();
    EXPECT_EQ(*value, any_bytes(bytes));
  }
  EXPECT_TRUE((*space)->finalize());
}

TYPED_TEST(Pmi, AKeyThatNobodyHasPutIsAnError) {
  PmiServer server(TypeParam::framing, typename TypeParam::Launcher());
  const auto space = TypeParam::Client::connect(server.place());
  ASSERT_TRUE(space);
  const auto value = (*space)->get(3, "nothing");
  ASSERT_FALSE(value);
  EXPECT_THAT(value.error().text(), HasSubstr("3-nothing-0"));
}

TYPED_TEST(Pmi, ALauncherThatClosesAtAnyMomentIsAnError) {
  for (int answers = 0; answers < TypeParam::messages; ++answers) {
    int left = answers;
    typename TypeParam::Launcher launcher;
    PmiServer server(TypeParam::framing, [&](const std::string& message) {
      return left-- > 0 ? launcher(message) : std::string();
    });
    const auto space = TypeParam::Client::connect(server.place());
    auto result = space ? (*space)->put("a", "b") : Result<>(fail(ErrorClass::other, space.error().text()));
    if (result) result = (*space)->fence();
    if (result) result = (*space)->finalize();
    EXPECT_TRUE(answers >= 3 || !space);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().text(), HasSubstr("the launcher has closed the connection"));
  }
}

TYPED_TEST(Pmi, WhatIsNoPmiIsAnError) {
  for (const std::string& answer : TypeParam::garbage()) {
    typename TypeParam::Launcher launcher;
    PmiServer server(TypeParam::framing, [&](const std::string& message) {
      const bool greets = std::is_same_v<TypeParam, Pmi2Dialect> && message.starts_with("cmd=init");
      return greets ? launcher(message) : answer;
    });
    const auto space = TypeParam::Client::connect(server.place());
    ASSERT_FALSE(space);
    EXPECT_THAT(space.error().text(), HasSubstr("the launcher"));
    EXPECT_THAT(space.error().text().size(), Le(300U));
  }
}

}  // namespace
}  // namespace isthmus::launch::pmi_test
