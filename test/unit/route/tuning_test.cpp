#include "route/tuning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "route/switch_point.hpp"

namespace isthmus::tuning::tuning_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const Machine machine{.processor = "Abacus 9", .processors = 4, .kernel = "6.1.0"};

std::string table(const std::string& values, int format = 1, const std::string& kernel = "6.1.0") {
  return R"({"isthmus_tuning": )" + std::to_string(format) +
         R"(, "machine": {"processor": "Abacus 9", "processors": 4, "kernel": ")" + kernel +
         R"("}, "values": {)" + values + "}}";
}

std::string complaint(const std::string& json) {
  const auto values = parse(json, machine);
  return values ? "" : values.error().text();
}

TEST(Tuning, GivesTheValuesOfATableOfThisMachine) {
  const auto found = parse(table(R"("ISTHMUS_EAGER_LIMIT": {"value": 32768, "origin": "tuned", "why": "w"},
                                     "ISTHMUS_FRAGMENT": {"value": 16384, "origin": "default"})"),
                           machine);
  ASSERT_TRUE(found) << found.error().text();
  const std::vector<Value>& values = found->values;
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0].variable, "ISTHMUS_EAGER_LIMIT");
  EXPECT_EQ(values[0].value, 32768U);
  EXPECT_TRUE(values[0].tuned);
  EXPECT_EQ(values[0].why, "w");
  EXPECT_FALSE(values[1].tuned);
  EXPECT_TRUE(found->taught_ways.empty());
}

/// A table in which messages have taught `entries`.
std::string taught(const std::string& entries) {
  std::string text = table("");
  text.insert(text.size() - 1, R"(, "taught": )" + entries);
  return text;
}

TEST(Tuning, GivesTheWaysThatMessagesHaveTaught) {
  const auto found = parse(taught(R"([{"from": 65536, "same_socket": true, "any_way": true, "several": true,
                                       "way": "ring", "ticks_per_byte": 0.25},
                                      {"from": 98304, "way": "receiver reads", "ticks_per_byte": 1}])"),
                           machine);
  ASSERT_TRUE(found) << found.error().text();
  ASSERT_EQ(found->taught_ways.size(), 2U);
  const TaughtWay& ring = found->taught_ways[0];
  EXPECT_EQ(ring.from, 65536U);
  EXPECT_EQ(ring.way, 2);
  EXPECT_EQ(ring.ticks_per_byte, 0.25);
  EXPECT_TRUE(ring.many && ring.all_ways && !ring.far);
  const TaughtWay& reads = found->taught_ways[1];
  EXPECT_EQ(reads.way, 1);
  EXPECT_TRUE(!reads.many && !reads.all_ways && reads.far);
}

TEST(Tuning, SaysWhatIsWrongWithWhatMessagesHaveTaught) {
  EXPECT_THAT(complaint(taught("{}")), HasSubstr("damaged: what messages have taught is no list"));
  for (const char* entry : {"1", "{}", "[]", R"({"from": 0, "way": "ring", "ticks_per_byte": 1})",
                            R"({"from": 4096, "way": "pigeon", "ticks_per_byte": 1})",
                            R"({"from": 4096, "way": "ring", "ticks_per_byte": -1})",
                            R"({"from": -1, "way": "ring", "ticks_per_byte": 1})",
                            R"({"from": 4096, "way": 2, "ticks_per_byte": "1"})"})
    EXPECT_THAT(complaint(taught("[" + std::string(entry) + "]")), HasSubstr("damaged: a way")) << entry;
}

/// A table with a list of that name.
std::string with_list(const std::string& name, const std::string& entries) {
  std::string text = table("");
  text.insert(text.size() - 1, ", \"" + name + "\": " + entries);
  return text;
}

TEST(Tuning, GivesWhatSendsAndCollectivesHaveTaught) {
  const auto eager =
      parse(with_list("taught_eager", R"([{"from": 16384, "same_socket": true, "nonblocking": true,
                                                          "way": "rendezvous", "ticks_per_byte": 0.5}])"),
            machine);
  ASSERT_TRUE(eager) << eager.error().text();
  ASSERT_EQ(eager->taught_eager.size(), 1U);
  EXPECT_EQ(eager->taught_eager[0].from, 16384U);
  EXPECT_EQ(eager->taught_eager[0].way, 1);
  EXPECT_TRUE(eager->taught_eager[0].nonblocking && !eager->taught_eager[0].far);
  EXPECT_FALSE(eager->taught_eager[0].several) << "an older table has nothing else";
  const auto calls =
      parse(with_list("taught_collectives", R"([{"collective": "alltoall", "members": 8, "up_to": 65536,
                                                  "same_socket": false, "way": "staged", "ticks_per_byte": 2,
                                                  "nonblocking_way": "messages"}])"),
            machine);
  ASSERT_TRUE(calls) << calls.error().text();
  ASSERT_EQ(calls->taught_calls.size(), 1U);
  const TaughtCall& call = calls->taught_calls[0];
  EXPECT_EQ(call.collective, 4);
  EXPECT_EQ(call.way, 1);
  EXPECT_EQ(call.in_lanes, std::optional<std::uint8_t>(6));
  EXPECT_EQ(call.members, 8);
  EXPECT_EQ(call.up_to, 65536U);
  EXPECT_TRUE(call.far);
  const auto others =
      parse(with_list("taught_collectives", R"([{"collective": "bcast", "members": 2, "up_to": 65536,
                                                  "same_socket": true, "nonblocking_way": "messages"}])"),
            machine);
  ASSERT_TRUE(others && others->taught_calls.size() == 1) << others.error().text();
  EXPECT_FALSE(others->taught_calls[0].way);
  EXPECT_EQ(others->taught_calls[0].in_lanes, std::optional<std::uint8_t>(6));
}

TEST(Tuning, SaysWhatIsWrongWithWhatCollectivesHaveTaught) {
  const std::string good = R"("collective": "bcast", "members": 2, "up_to": 4096, "ticks_per_byte": 1)";
  for (const std::string& entry :
       {std::string("1"), std::string("{}"), "{" + good + "}", "{" + good + R"(, "way": "pigeon"})",
        "{" + good + R"(, "way": "flat", "nonblocking_way": 7})", "{" + good + R"(, "nonblocking_way": 7})",
        "{" + good + R"(, "way": "pigeon", "nonblocking_way": "messages"})",
        std::string(
            R"({"collective": "scan", "members": 2, "up_to": 4096, "ticks_per_byte": 1, "way": "flat"})"),
        std::string(
            R"({"collective": "bcast", "members": 1, "up_to": 4096, "ticks_per_byte": 1, "way": "flat"})"),
        std::string(R"({"collective": "bcast", "members": 99999999999, "up_to": 4096, "ticks_per_byte": 1,
                        "way": "flat"})"),
        std::string(
            R"({"collective": "bcast", "members": 2, "up_to": -1, "ticks_per_byte": 1, "way": "flat"})"),
        std::string(
            R"({"collective": "bcast", "members": 2, "up_to": 4096, "ticks_per_byte": 0, "way": "flat"})")})
    EXPECT_THAT(complaint(with_list("taught_collectives", "[" + entry + "]")),
                HasSubstr("damaged: a collective that has been taught"))
        << entry;
}

TEST(Tuning, SaysWhatIsWrongWithATable) {
  for (const char* damaged : {"", "{", "[]", "7", "null", "{}", R"({"isthmus_tuning": "1"})", "\xff\xfe"})
    EXPECT_THAT(complaint(damaged), HasSubstr("damaged")) << damaged;
  EXPECT_THAT(complaint(table("", 2)), HasSubstr("version 2 of the format"));
  EXPECT_THAT(complaint(table("", 1, "5.4")),
              HasSubstr("another machine (Abacus 9, 4 hardware threads, kernel 5.4"));
  EXPECT_THAT(complaint(table(R"("ISTHMUS_WARN": {"value": 0, "origin": "tuned"})")),
              HasSubstr("ISTHMUS_WARN"));
  for (const char* entry :
       {"1", "{}", R"({"value": -1, "origin": "tuned"})", R"({"value": 1.5, "origin": "tuned"})",
        R"({"value": 4096})", R"({"value": 4096, "origin": 3})"})
    EXPECT_THAT(complaint(table(std::string(R"("ISTHMUS_EAGER_LIMIT": )") + entry)),
                HasSubstr("damaged: ISTHMUS_EAGER_LIMIT has no value"))
        << entry;
  EXPECT_THAT(complaint(table(R"("ISTHMUS_RING_CELLS": {"value": 100, "origin": "tuned"})")),
              HasSubstr("ISTHMUS_RING_CELLS cannot be 100"));
}

TEST(Tuning, ADamagedTableChangesNothingAndIsNamed) {
  std::string path = "/tmp/isthmus-tuning-XXXXXX";
  const int fd = ::mkstemp(path.data());
  ASSERT_GE(fd, 0);
  ::close(fd);
  std::ofstream(path) << "not a table";
  Settings settings;
  settings.tuning = path;
  EXPECT_THAT(apply(settings), testing::AllOf(HasSubstr(path), HasSubstr("the defaults are used instead")));
  EXPECT_EQ(settings.eager_limit, 0U);
  std::remove(path.c_str());
  EXPECT_THAT(apply(settings), testing::AllOf(HasSubstr(path), HasSubstr("No such file")));
  settings.tuning = "off";
  EXPECT_THAT(apply(settings), IsEmpty());
}

TEST(SwitchPoint, MovesAsLongAsTheOtherWayIsClearlyFaster) {
  const std::array<double, 5> rising{1, 2, 3, 4, 5}, flat{2.5, 2.5, 2.5, 2.5, 2.5};
  for (std::size_t usual = 0; usual <= 5; ++usual)
    EXPECT_EQ(switch_point(rising, flat, usual), 2U) << usual;
  EXPECT_EQ(switch_point(flat, flat, 3), 3U);
  EXPECT_EQ(switch_point(std::array<double, 5>{1, 2, 2.4, 2.4, 2.4}, flat, 2), 2U) << "within the noise";
  EXPECT_EQ(switch_point(rising, flat, 9), 2U);
}

TEST(SwitchPoint, TheBestCandidateHasToBeWorthIt) {
  const std::array<double, 2> usual{10, 100}, little{9.8, 97}, better{8, 90}, mixed{5, 160};
  const std::array<std::span<const double>, 4> all{usual, little, better, mixed};
  EXPECT_EQ(best_of(all, 0), 2U);
  EXPECT_EQ(best_of(std::span(all).first(2), 0), 0U);
}

}  // namespace
}  // namespace isthmus::tuning::tuning_test
