#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "launch/pmi2.hpp"
#include "launch/pmi_words.hpp"
#include "launch_pmi_server.hpp"

namespace isthmus::launch {
namespace {

using testing::HasSubstr;
using testing::Le;

/// One line first, and from then on messages behind six characters of length.
std::size_t a_message(const std::string& received) {
  if (received.starts_with("cmd=init")) return received.find('\n') + 1;  // 0 where there is no end
  if (received.size() < 6) return 0;
  const std::size_t bytes = 6 + std::strtoul(received.substr(0, 6).c_str(), nullptr, 10);
  return received.size() < bytes ? 0 : bytes;
}

std::string framed(const std::string& text, bool right = true) {
  const std::string digits = std::to_string(text.size());
  const std::string blanks(6 - digits.size(), ' ');
  return (right ? blanks + digits : digits + blanks) + text;
}

/// A launcher of one rank.
class Slurm {
 public:
  std::string operator()(const std::string& message) {
    if (message.starts_with("cmd=init")) {
      EXPECT_EQ(message, "cmd=init pmi_version=2 pmi_subversion=0\n");
      return "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
    }
    const auto word = [&](std::string_view name) {
      return std::string(pmi_word(std::string_view(message).substr(6), ';', name).value_or(""));
    };
    const std::string command = word("cmd");
    if (command == "fullinit") {
      EXPECT_EQ(word("pmijobid"), "the-step");
      return framed("cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=1;appnum=4;",
                    false);
    }
    if (command == "job-getid") return framed("cmd=job-getid-response;rc=0;jobid=8.2;");
    if (command == "info-getjobattr") return framed("cmd=info-getjobattr-response;rc=0;found=TRUE;value=16;");
    if (command == "kvs-put") {
      EXPECT_THAT(word("key").size(), Le(63U));
      EXPECT_THAT(word("value").size(), Le(1023U));
      values_[word("key")] = word("value");
      return framed("cmd=kvs-put-response;rc=0;");
    }
    if (command == "kvs-get") {
      const auto found = values_.find(word("key"));
      if (found == values_.end()) return framed("cmd=kvs-get-response;rc=0;found=FALSE;");
      return framed("cmd=kvs-get-response;rc=0;found=TRUE;value=" + found->second + ";");
    }
    if (command == "kvs-fence" || command == "finalize") return framed("cmd=" + command + "-response;rc=0;");
    ADD_FAILURE() << "not a command of PMI-2: " << message;
    return {};
  }

 private:
  std::map<std::string, std::string> values_;
};

TEST(Pmi2, TellsWhatTheLauncherSays) {
  PmiServer server(a_message, Slurm());
  const auto space = Pmi2::connect(server.place(2, 5));
  ASSERT_TRUE(space) << space.error().text();
  EXPECT_EQ((*space)->protocol(), "PMI-2");
  EXPECT_EQ((*space)->rank(), 2U);
  EXPECT_EQ((*space)->size(), 5U);
  EXPECT_EQ((*space)->universe(), 16);
  EXPECT_EQ((*space)->appnum(), 4);
  EXPECT_EQ((*space)->job(), "8.2");
}

TEST(Pmi2, ReturnsValuesOfAnyBytesAndLength) {
  PmiServer server(a_message, Slurm());
  const auto space = Pmi2::connect(server.place());
  ASSERT_TRUE(space) << space.error().text();
  for (const std::size_t bytes : {0, 1, 742, 743, 5000}) {
    std::string given(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i)
      given[i] = static_cast<char>(i * 41);
    ASSERT_TRUE((*space)->put("of-" + std::to_string(bytes), given));
    ASSERT_TRUE((*space)->fence());
    const auto value = (*space)->get(0, "of-" + std::to_string(bytes));
    ASSERT_TRUE(value) << value.error().text();
    EXPECT_EQ(*value, given);
  }
  EXPECT_TRUE((*space)->finalize());
}

TEST(Pmi2, AKeyThatNobodyHasPutIsAnError) {
  PmiServer server(a_message, Slurm());
  const auto space = Pmi2::connect(server.place());
  ASSERT_TRUE(space);
  const auto value = (*space)->get(3, "nothing");
  ASSERT_FALSE(value);
  EXPECT_THAT(value.error().text(), HasSubstr("3-nothing-0"));
}

TEST(Pmi2, ALauncherThatClosesAtAnyMomentIsAnError) {
  for (int answers = 0; answers < 7; ++answers) {
    int left = answers;
    Slurm slurm;
    PmiServer server(a_message,
                     [&](const std::string& text) { return left-- > 0 ? slurm(text) : std::string(); });
    const auto space = Pmi2::connect(server.place());
    auto result = space ? (*space)->put("a", "b") : Result<>(fail(ErrorClass::other, space.error().text()));
    if (result) result = (*space)->fence();
    if (result) result = (*space)->finalize();
    EXPECT_TRUE(answers >= 3 || !space);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().text(), HasSubstr("the launcher has closed the connection"));
  }
}

TEST(Pmi2, WhatIsNoPmiIsAnError) {
  for (const std::string& answer :
       {std::string("      "), std::string("-00001"), std::string("999999"), std::string("abcdefgh"),
        framed(""), framed("cmd=fullinit-response;rc=14;"), framed(";;;==;"), std::string(6, '\0')}) {
    Slurm slurm;
    PmiServer server(a_message, [&](const std::string& text) {
      return text.starts_with("cmd=init") ? slurm(text) : answer;
    });
    const auto space = Pmi2::connect(server.place());
    ASSERT_FALSE(space);
    EXPECT_THAT(space.error().text(), HasSubstr("the launcher"));
    EXPECT_THAT(space.error().text().size(), Le(300U));
  }
}

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
}  // namespace isthmus::launch
