#include "tune/taught.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "child.hpp"
#include "explain/report_filter.hpp"
#include "route/plan.hpp"
#include "route/tuning.hpp"
#include "route/way_choice.hpp"
#include "tune/tuning_questions.hpp"
#include "tune/tuning_table.hpp"

namespace isthmus::tool {
namespace {

/// Votes for the ways of messages of one kind.
struct Votes {
  struct Way {
    std::uint64_t messages = 0;
    std::vector<double> costs;
  };
  std::map<std::string, Way> ways;
};
using Kind = std::tuple<bool, bool, bool, std::uint64_t>;  ///< same socket, any way, several, from

/// As a table names it; empty for what is none of the ways of long messages.
std::string_view table_name(std::string_view protocol) {
  for (std::size_t i = 0; i < long_way_count; ++i)
    if (protocol == name_of(protocol_of(static_cast<LongWay>(i)))) return tuning::long_ways[i];
  return {};
}

bool count(const Json& lesson, std::map<Kind, Votes>& votes) {
  try {
    const std::string_view way = table_name(lesson.at("protocol").get_ref<const std::string&>());
    const double cost = lesson.at("ticks_per_byte").get<double>();
    if (lesson.at("mixed").get<bool>() || cost <= 0) return true;
    if (way.empty()) return false;
    const Kind kind{lesson.at("same_socket").get<bool>(), lesson.at("any_way").get<bool>(),
                    lesson.at("several").get<bool>(), lesson.at("from").get<std::uint64_t>()};
    Votes::Way& counted = votes[kind].ways[std::string(way)];
    counted.messages += lesson.at("messages").get<std::uint64_t>();
    counted.costs.push_back(cost);
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

Taught winner(const Kind& kind, const Votes& votes) {
  const auto most =
      std::ranges::max_element(votes.ways, {}, [](const auto& entry) { return entry.second.messages; });
  std::vector<double> costs = most->second.costs;
  std::ranges::sort(costs);
  Taught taught{.way = most->first,
                .ticks_per_byte = costs[costs.size() / 2],
                .messages = most->second.messages,
                .ranks = static_cast<int>(costs.size())};
  std::tie(taught.same_socket, taught.any_way, taught.several, taught.from) = kind;
  for (const auto& [way, counted] : votes.ways)
    if (way != most->first) taught.others += static_cast<int>(counted.costs.size());
  return taught;
}

bool same_kind(const Json& entry, const Taught& taught) {
  return entry.value("from", std::uint64_t{0}) == taught.from &&
         entry.value("same_socket", false) == taught.same_socket &&
         entry.value("any_way", false) == taught.any_way && entry.value("several", false) == taught.several;
}

std::string read_table(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void print(const Taught& taught) {
  fmt::print("  from {:<9} {:<18} {:<15} {} messages of {} rank{}{}{}{}\n", size_text(taught.from),
             taught.several ? "several at a time" : "one at a time", taught.way, taught.messages,
             taught.ranks, taught.ranks == 1 ? "" : "s",
             taught.others > 0 ? fmt::format(", {} found another", taught.others) : "",
             taught.any_way ? "" : ", data with gaps or for one side to copy",
             taught.same_socket ? "" : ", from other sockets");
}

}  // namespace

std::expected<std::vector<Taught>, std::string> taught_by(const std::vector<std::string>& reports) {
  std::map<Kind, Votes> votes;
  for (const std::string& text : reports) {
    const Json report = Json::parse(text, nullptr, false);
    if (!report.is_object() || !report.contains("ranks") || !report["ranks"].is_array())
      return std::unexpected("a job has told nonsense");
    for (const Json& rank : report["ranks"])
      for (const Json& lesson : rank.is_object() ? rank.value("live", Json::array()) : Json::array())
        if (!count(lesson, votes)) return std::unexpected("a job has told nonsense of its messages");
  }
  std::vector<Taught> taught;
  taught.reserve(votes.size());
  for (const auto& [kind, found] : votes)
    taught.push_back(winner(kind, found));
  return taught;
}

std::string with_taught(const std::string& table, const std::vector<Taught>& taught) {
  Json result = Json::parse(table.empty() ? table_text({}) : table);
  Json kept = Json::array();
  for (const Json& entry : result.value("taught", Json::array()))
    if (std::ranges::none_of(taught, [&](const Taught& each) { return same_kind(entry, each); }))
      kept.push_back(entry);
  for (const Taught& each : taught)
    kept.push_back({{"from", each.from},
                    {"same_socket", each.same_socket},
                    {"any_way", each.any_way},
                    {"several", each.several},
                    {"way", each.way},
                    {"ticks_per_byte", each.ticks_per_byte},
                    {"messages", each.messages}});
  result["taught"] = std::move(kept);
  return result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int tune_from(const TuneOptions& options, const std::string& path) {
  ::setenv("ISTHMUS_EXPLAIN", "json", 1);
  ::setenv("ISTHMUS_PLANS", "live", 1);
  ReportFilter filter(write_errors);
  const int status = run_command(options.command, [&](std::string_view bytes) { filter.take(bytes); });
  filter.end();
  if (status != 0) {
    fmt::print(stderr, "isthmus: {} has ended with {}, so no table is written\n", options.command[0], status);
    return status;
  }
  if (filter.reports().empty()) {
    fmt::print(stderr,
               "isthmus: no job has told anything, so no table is written: is it a program of Isthmus's "
               "mpiexec?\n");
    return 1;
  }
  const auto taught = taught_by(filter.reports());
  if (!taught || taught->empty()) {
    fmt::print(stderr, "isthmus: {}, so no table is written\n",
               taught ? "no kind of long messages came often enough to teach anything (a hundred times)"
                      : taught.error());
    return 1;
  }
  std::string before = read_table(path);
  // One of another machine, or a damaged one, is replaced.
  if (!tuning::parse(before, tuning::Machine::here())) before.clear();
  if (const auto written = write_whole(path, with_taught(before, *taught)); !written) {
    fmt::print(stderr, "isthmus: {}\n", written.error());
    return 1;
  }
  fmt::print("The fastest ways of long messages:\n");
  for (const Taught& each : *taught)
    print(each);
  fmt::print("Written: {}\n", path);
  return 0;
}

}  // namespace isthmus::tool
