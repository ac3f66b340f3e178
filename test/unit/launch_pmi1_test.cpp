#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "launch/pmi1.hpp"
#include "launch/pmi_words.hpp"
#include "launch_pmi_server.hpp"

namespace isthmus::launch {
namespace {

using testing::HasSubstr;
using testing::Le;

std::size_t a_line(const std::string& received) {
  const std::size_t end = received.find('\n');
  return end == std::string::npos ? 0 : end + 1;
}

/// A launcher of one rank that takes values of `longest` characters.
class Hydra {
 public:
  explicit Hydra(std::size_t longest = 1024) : longest_(longest) {}

  std::string operator()(const std::string& line) {
    const auto word = [&](std::string_view name) {
      return std::string(pmi_word(std::string_view(line).substr(0, line.size() - 1), ' ', name).value_or(""));
    };
    const std::string command = word("cmd");
    if (command == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
    if (command == "get_maxes")
      return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=" + std::to_string(longest_) + "\n";
    if (command == "get_my_kvsname") return "cmd=my_kvsname kvsname=space_7\n";
    if (command == "get_universe_size") return "cmd=universe_size size=12\n";
    if (command == "get_appnum") return "cmd=appnum appnum=3\n";
    if (command == "put") {
      EXPECT_EQ(word("kvsname"), "space_7");
      EXPECT_THAT(word("key").size(), Le(63U));
      EXPECT_THAT(word("value").size(), Le(longest_ - 1));
      values_[word("key")] = word("value");
      return "cmd=put_result rc=0 msg=success\n";
    }
    if (command == "get") {
      const auto found = values_.find(word("key"));
      if (found == values_.end()) return "cmd=get_result rc=-1 msg=not_found value=unknown\n";
      return "cmd=get_result rc=0 msg=success value=" + found->second + "\n";
    }
    if (command == "barrier_in") return "cmd=barrier_out\n";
    if (command == "finalize") return "cmd=finalize_ack\n";
    ADD_FAILURE() << "not a command of PMI-1: " << line;
    return {};
  }

 private:
  std::size_t longest_;
  std::map<std::string, std::string> values_;
};

std::string any_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<char>(i * 37 + (i >> 8));
  return bytes;
}

TEST(Pmi1, TellsWhatTheLauncherSays) {
  PmiServer server(a_line, Hydra());
  const auto space = Pmi1::connect(server.place(2, 5));
  ASSERT_TRUE(space) << space.error().text();
  EXPECT_EQ((*space)->protocol(), "PMI-1");
  EXPECT_EQ((*space)->rank(), 2U);
  EXPECT_EQ((*space)->size(), 5U);
  EXPECT_EQ((*space)->universe(), 12);
  EXPECT_EQ((*space)->appnum(), 3);
  EXPECT_EQ((*space)->job(), "space_7");
}

TEST(Pmi1, ReturnsValuesOfAnyBytesAndLength) {
  for (const std::size_t longest : {std::size_t{32}, std::size_t{1024}, std::size_t{100'000}}) {
    PmiServer server(a_line, Hydra(std::min<std::size_t>(longest, 1024)));
    const auto space = Pmi1::connect(server.place());
    ASSERT_TRUE(space) << space.error().text();
    for (const std::size_t bytes : {0, 1, 2, 3, 15, 16, 700, 767, 768, 5000}) {
      ASSERT_TRUE((*space)->put("of-" + std::to_string(bytes), any_bytes(bytes)));
      ASSERT_TRUE((*space)->fence());
      const auto value = (*space)->get(0, "of-" + std::to_string(bytes));
      ASSERT_TRUE(value) << value.error().text();
      EXPECT_EQ(*value, any_bytes(bytes));
    }
    EXPECT_TRUE((*space)->finalize());
  }
}

TEST(Pmi1, AKeyThatNobodyHasPutIsAnError) {
  PmiServer server(a_line, Hydra());
  const auto space = Pmi1::connect(server.place());
  ASSERT_TRUE(space);
  const auto value = (*space)->get(3, "nothing");
  ASSERT_FALSE(value);
  EXPECT_THAT(value.error().text(), HasSubstr("key=3-nothing-0"));
}

TEST(Pmi1, ALauncherThatClosesAtAnyMomentIsAnError) {
  for (int answers = 0; answers < 8; ++answers) {
    int left = answers;
    Hydra hydra;
    PmiServer server(a_line,
                     [&](const std::string& line) { return left-- > 0 ? hydra(line) : std::string(); });
    const auto space = Pmi1::connect(server.place());
    auto result = space ? (*space)->put("a", "b") : Result<>(fail(ErrorClass::other, space.error().text()));
    if (result) result = (*space)->fence();
    if (result) result = (*space)->finalize();
    EXPECT_TRUE(answers >= 3 || !space);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().text(), HasSubstr("the launcher has closed the connection"));
  }
}

TEST(Pmi1, WhatIsNoPmiIsAnError) {
  for (const std::string& answer :
       {std::string("HTTP/1.1 400 Bad Request\r\n"), std::string("\n"), std::string("cmd=\n"),
        std::string("===\n"), std::string("cmd=response_to_init rc=-1\n"), std::string(7, '\0') + "\n",
        std::string(100'000, 'x')}) {
    PmiServer server(a_line, [&](const std::string&) { return answer; });
    const auto space = Pmi1::connect(server.place());
    ASSERT_FALSE(space);
    EXPECT_THAT(space.error().text(), HasSubstr("the launcher"));
    EXPECT_THAT(space.error().text().size(), Le(200U));
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
}  // namespace isthmus::launch
