#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "launch/launcher/pmi1.hpp"
#include "launch/launcher/pmi2.hpp"
#include "launch/launcher/pmi_words.hpp"
#include "pmi_server.hpp"

/// The two ways to speak PMI: how messages end, a launcher of one rank, and what it says.
namespace isthmus::launch {

inline std::size_t a_line(const std::string& received) {
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
      EXPECT_THAT(word("key").size(), testing::Le(63U));
      EXPECT_THAT(word("value").size(), testing::Le(longest_ - 1));
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

/// One line first, and from then on messages behind six characters of length.
inline std::size_t a_message(const std::string& received) {
  if (received.starts_with("cmd=init")) return received.find('\n') + 1;  // 0 where there is no end
  if (received.size() < 6) return 0;
  const std::size_t bytes = 6 + std::strtoul(received.substr(0, 6).c_str(), nullptr, 10);
  return received.size() < bytes ? 0 : bytes;
}

inline std::string framed(const std::string& text, bool right = true) {
  const std::string digits = std::to_string(text.size());
  const std::string blanks(6 - digits.size(), ' ');
  return (right ? blanks + digits : digits + blanks) + text;
}

/// The same, for PMI-2.
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
      EXPECT_THAT(word("key").size(), testing::Le(63U));
      EXPECT_THAT(word("value").size(), testing::Le(1023U));
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

/// What the tests of both need to know of each.
struct Pmi1Dialect {
  using Client = Pmi1;
  using Launcher = Hydra;
  static constexpr auto framing = a_line;
  static constexpr int messages = 8;  ///< to connect, put, meet and end
  static JobFacts facts() {
    return {.protocol = "PMI-1", .rank = 2, .size = 5, .universe = 12, .appnum = 3, .job = "space_7"};
  }
  /// Answers to its first message that are none.
  static std::vector<std::string> garbage() {
    return {"HTTP/1.1 400 Bad Request\r\n",
            "\n",
            "cmd=\n",
            "===\n",
            "cmd=response_to_init rc=-1\n",
            std::string(7, '\0') + "\n",
            std::string(100'000, 'x')};
  }
};
struct Pmi2Dialect {
  using Client = Pmi2;
  using Launcher = Slurm;
  static constexpr auto framing = a_message;
  static constexpr int messages = 7;
  static JobFacts facts() {
    return {.protocol = "PMI-2", .rank = 2, .size = 5, .universe = 16, .appnum = 4, .job = "8.2"};
  }
  /// Answers to its second message that are none: the first one is a line, as in PMI-1.
  static std::vector<std::string> garbage() {
    return {"      ",         "-00001",
            "999999",         "abcdefgh",
            framed(""),       framed("cmd=fullinit-response;rc=14;"),
            framed(";;;==;"), std::string(6, '\0')};
  }
};

}  // namespace isthmus::launch
