#include "explain/report_filter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace isthmus::tool::report_filter_test {
namespace {

using testing::ElementsAre;

constexpr std::string_view said =
    "a\n{\"isthmus_explain\":1,\"b\":2}\n{\"isthmus_else\":1}\nno newline {\"isthmus_";

TEST(ReportFilter, PartsReportsFromTheRestHoweverTheyCome) {
  for (std::size_t part = 1; part <= said.size(); ++part) {
    std::string rest;
    ReportFilter filter([&](std::string_view text) { rest += text; });
    for (std::size_t from = 0; from < said.size(); from += part)
      filter.take(said.substr(from, part));
    filter.end();
    EXPECT_EQ(rest, "a\n{\"isthmus_else\":1}\nno newline {\"isthmus_") << part;
    EXPECT_THAT(filter.reports(), ElementsAre("{\"isthmus_explain\":1,\"b\":2}")) << part;
  }
}

TEST(ReportFilter, LetsTextThroughAtOnce) {
  std::string rest;
  ReportFilter filter([&](std::string_view text) { rest += text; });
  filter.take("a prompt: ");
  EXPECT_EQ(rest, "a prompt: ");
  filter.take("{\"isthmus");
  EXPECT_EQ(rest, "a prompt: ");
  filter.take(" it is not");
  EXPECT_EQ(rest, "a prompt: {\"isthmus it is not");
}

TEST(ReportFilter, PartsSeveralReportsAndGivesWhatIsCutBack) {
  std::string rest;
  ReportFilter filter([&](std::string_view text) { rest += text; });
  filter.take("{\"isthmus_explain\":1}\n{\"isthmus_explain\":2}\n{\"isthmus_explain\":3");
  EXPECT_THAT(filter.reports(), ElementsAre("{\"isthmus_explain\":1}", "{\"isthmus_explain\":2}"));
  EXPECT_EQ(rest, "");
  filter.end();
  EXPECT_EQ(rest, "{\"isthmus_explain\":3");
}

}  // namespace
}  // namespace isthmus::tool::report_filter_test
