#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "channel/network/sequence.hpp"

namespace isthmus::network::sequence_test {
namespace {

using Turn = Sequence<std::string>::Turn;

/// What comes out, in order, when `numbers` come in.
std::vector<std::string> delivered(const std::vector<std::uint64_t>& numbers) {
  Sequence<std::string> sequence;
  std::vector<std::string> out;
  for (const std::uint64_t number : numbers)
    switch (sequence.turn(number)) {
      case Turn::now:
        out.push_back(std::to_string(number));
        sequence.advance();
        while (auto item = sequence.take()) {
          out.push_back(*item);
          sequence.advance();
        }
        break;
      case Turn::early:
        sequence.keep(number, std::to_string(number));
        break;
      case Turn::wrong:
        out.emplace_back("wrong");
        break;
    }
  return out;
}

TEST(NetworkSequence, PassesWhatComesInOrder) {
  EXPECT_EQ(delivered({0, 1, 2}), (std::vector<std::string>{"0", "1", "2"}));
}

TEST(NetworkSequence, HoldsBackWhatComesBeforeItsTurn) {
  EXPECT_EQ(delivered({2, 1}), std::vector<std::string>{});
  EXPECT_EQ(delivered({2, 1, 0, 3}), (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(delivered({1, 4, 0, 3, 2}), (std::vector<std::string>{"0", "1", "2", "3", "4"}));
}

TEST(NetworkSequence, RefusesNumbersThatWereThereBefore) {
  EXPECT_EQ(delivered({0, 0}), (std::vector<std::string>{"0", "wrong"}));
  EXPECT_EQ(delivered({2, 2}), (std::vector<std::string>{"wrong"}));
}

TEST(NetworkSequence, RefusesNumbersFarAhead) {
  EXPECT_EQ(delivered({Sequence<std::string>::window}), std::vector<std::string>{});
  EXPECT_EQ(delivered({Sequence<std::string>::window + 1}), std::vector<std::string>{"wrong"});
  EXPECT_EQ(delivered({~std::uint64_t{0}}), std::vector<std::string>{"wrong"});
}

TEST(NetworkSequence, GivesWhatItKeepsToWhoClearsIt) {
  Sequence<std::string> sequence;
  sequence.keep(5, "five");
  sequence.keep(3, "three");
  std::vector<std::string> discarded;
  sequence.clear([&](const std::string& item) { discarded.push_back(item); });
  EXPECT_EQ(discarded, (std::vector<std::string>{"three", "five"}));
  EXPECT_EQ(sequence.kept(), 0U);
}

}  // namespace
}  // namespace isthmus::network::sequence_test
