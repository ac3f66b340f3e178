#include "pmi_dialects.hpp"

// What only PMI-1 has.
namespace isthmus::launch::pmi1_test {
namespace {

TEST(Pmi1, KeepsToTheLimitOfValues) {
  for (const std::size_t longest : {32, 1024}) {
    PmiServer server(a_line, Hydra(longest));
    const auto space = Pmi1::connect(server.place());
    ASSERT_TRUE(space) << space.error().text();
    const std::string given(5000, 'v');
    ASSERT_TRUE((*space)->put("a", given));
    const auto value = (*space)->get(0, "a");
    ASSERT_TRUE(value) << value.error().text();
    EXPECT_EQ(*value, given);
  }
}

TEST(Pmi1, LimitsThatMakeNoSenseAreAnError) {
  for (const char* maxes : {"cmd=maxes\n", "cmd=maxes vallen_max=0\n", "cmd=maxes vallen_max=-5\n",
                            "cmd=maxes vallen_max=31\n", "cmd=maxes vallen_max=99999999999999999999999\n"}) {
    PmiServer server(
        a_line, [&](const std::string& line) { return line.contains("get_maxes") ? maxes : Hydra()(line); });
    EXPECT_FALSE(Pmi1::connect(server.place())) << maxes;
  }
}

TEST(Pmi1, ValuesThatTheLauncherHasGarbledAreAnError) {
  for (const char* value :
       {"", "AAAA", ".AAAA", "0.", "x.AAAA", "1.A", "1.AA!A", "99999999999.AA", "2.AAAA"}) {
    PmiServer server(a_line, [&](const std::string& line) -> std::string {
      if (line.contains("key=0-a-1")) return "cmd=get_result rc=0 value=\n";
      if (line.contains("cmd=get ")) return "cmd=get_result rc=0 value=" + std::string(value) + "\n";
      return Hydra()(line);
    });
    const auto space = Pmi1::connect(server.place());
    ASSERT_TRUE(space);
    EXPECT_FALSE((*space)->get(0, "a")) << value;
  }
}

TEST(Pmi1DeathTest, AbortTellsTheCodeAndEndsTheProcess) {
  EXPECT_EXIT(
      {
        PmiServer server(a_line, [](const std::string& line) -> std::string {
          if (!line.contains("cmd=abort")) return Hydra()(line);
          if (line == "cmd=abort exitcode=77\n") ::write(2, "told", 4);
          return {};
        });
        const auto space = Pmi1::connect(server.place());
        if (space) (*space)->abort(77, "the end");
      },
      testing::ExitedWithCode(77), "told");
}

}  // namespace
}  // namespace isthmus::launch::pmi1_test
