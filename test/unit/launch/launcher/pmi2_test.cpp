#include "pmi_dialects.hpp"

// What only PMI-2 has.
namespace isthmus::launch::pmi2_test {
namespace {

using testing::HasSubstr;

TEST(Pmi2, ALauncherThatAnswersWithAnotherVersionIsAnErrorAtOnce) {
  PmiServer server(a_message, [](const std::string&) {
    return std::string("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  });
  const auto space = Pmi2::connect(server.place());
  ASSERT_FALSE(space);
  EXPECT_THAT(space.error().text(), HasSubstr("is not PMI-2"));
}

TEST(Pmi2DeathTest, AbortNamesTheWholeJobAndEndsTheProcess) {
  EXPECT_EXIT(
      {
        PmiServer server(a_message, [slurm = Slurm()](const std::string& text) mutable -> std::string {
          if (!text.contains("cmd=abort")) return slurm(text);
          if (text.contains(";isworld=TRUE;")) ::write(2, "told", 4);
          return {};
        });
        const auto space = Pmi2::connect(server.place());
        if (space) (*space)->abort(78, "the end");
      },
      testing::ExitedWithCode(78), "told");
}

}  // namespace
}  // namespace isthmus::launch::pmi2_test
