#include "tune/taught.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <span>
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

/// Votes for the ways of one kind of messages or calls.
class Votes {
 public:
  void count(const std::string& way, std::uint64_t messages, double cost) {
    Way& counted = ways_[way];
    counted.messages += messages;
    counted.costs.push_back(cost);
  }
  /// What most messages speak for; without votes, no way.
  [[nodiscard]] Verdict verdict() const {
    if (ways_.empty()) return {};
    const auto most =
        std::ranges::max_element(ways_, {}, [](const auto& entry) { return entry.second.messages; });
    std::vector<double> costs = most->second.costs;
    std::ranges::sort(costs);
    Verdict verdict{.way = most->first,
                    .ticks_per_byte = costs[costs.size() / 2],
                    .messages = most->second.messages,
                    .ranks = static_cast<int>(costs.size())};
    for (const auto& [way, counted] : ways_)
      if (way != verdict.way) verdict.others += static_cast<int>(counted.costs.size());
    return verdict;
  }

 private:
  struct Way {
    std::uint64_t messages = 0;
    std::vector<double> costs;
  };
  std::map<std::string, Way> ways_;
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
    votes[kind].count(std::string(way), lesson.at("messages").get<std::uint64_t>(), cost);
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

Taught winner(const Kind& kind, const Votes& votes) {
  Taught taught{.verdict = votes.verdict()};
  std::tie(taught.same_socket, taught.any_way, taught.several, taught.from) = kind;
  return taught;
}

/// Votes for the ways of anything else, by what they are of.
struct EntryVotes {
  std::string words;
  Votes votes;
  Votes nonblocking;  ///< of calls that do not block
  /// What those suggest that block, by the way that these have found.
  std::map<std::string, std::string> nonblocking_ways;
};
using Entries = std::map<std::string, EntryVotes>;

/// Keeps the names of a lesson that say what it is of.
Json kind_of(const Json& lesson, std::initializer_list<const char*> names) {
  Json kind = Json::object();
  for (const char* name : names)
    kind[name] = lesson.at(name);
  return kind;
}

/// Whether a lesson says one of these names there.
bool is_one_of(const Json& lesson, const char* member, std::span<const std::string_view> names) {
  return std::ranges::find(names, lesson.at(member).get<std::string>()) != names.end();
}

/// What an earlier job has told is no vote.
bool is_vote(const Json& lesson) {
  return !lesson.at("told").get<bool>() && lesson.at("ticks_per_byte").get<double>() > 0;
}

bool count_entry(const Json& lesson, const Json& kind, const std::string& words, const char* calls,
                 Entries& entries) {
  EntryVotes& entry = entries[kind.dump()];
  entry.words = words;
  const auto way = lesson.at("way").get<std::string>();
  entry.votes.count(way, lesson.at(calls).get<std::uint64_t>(), lesson.at("ticks_per_byte").get<double>());
  if (const auto other = lesson.find("nonblocking_way"); other != lesson.end() && other->is_string())
    entry.nonblocking_ways[way] = other->get<std::string>();
  return true;
}

bool count_eager(const Json& lesson, Entries& entries) {
  try {
    if (!is_vote(lesson)) return true;
    if (!is_one_of(lesson, "way", tuning::eager_ways)) return false;
    const Json kind = kind_of(lesson, {"from", "same_socket", "nonblocking", "several"});
    std::string sends = kind.at("nonblocking").get<bool>() ? "nonblocking sends" : "blocking sends";
    if (kind.at("several").get<bool>()) sends += ", several at a time";
    const std::string words =
        fmt::format("from {:<9} {:<17}", size_text(kind.at("from").get<std::uint64_t>()), sends);
    return count_entry(lesson, kind, words, "messages", entries);
  } catch (const Json::exception&) {
    return false;
  }
}

bool count_gpu(const Json& lesson, Entries& entries) {
  try {
    if (!is_vote(lesson)) return true;
    if (!is_one_of(lesson, "route", gpu_route_names) || !is_one_of(lesson, "way", gpu_way_names))
      return false;
    const Json kind = kind_of(lesson, {"from", "route", "gaps", "several"});
    const std::string words =
        fmt::format("from {:<9} {}{}, {}", size_text(kind.at("from").get<std::uint64_t>()),
                    kind.at("route").get<std::string>(), kind.at("gaps").get<bool>() ? ", with gaps" : "",
                    kind.at("several").get<bool>() ? "several at a time" : "one at a time");
    return count_entry(lesson, kind, words, "messages", entries);
  } catch (const Json::exception&) {
    return false;
  }
}

Json kind_of_calls(const Json& lesson) {
  return kind_of(lesson, {"collective", "members", "same_socket", "up_to"});
}

std::string words_of_calls(const Json& kind) {
  return fmt::format("{} among {} ranks, up to {:<9}", kind.at("collective").get<std::string>(),
                     kind.at("members").get<std::uint64_t>(),
                     size_text(kind.at("up_to").get<std::uint64_t>()));
}

bool count_collective(const Json& lesson, Entries& entries) {
  try {
    if (!is_vote(lesson)) return true;
    if (!is_one_of(lesson, "collective", tuning::collectives) || !is_one_of(lesson, "way", tuning::call_ways))
      return false;
    const Json kind = kind_of_calls(lesson);
    return count_entry(lesson, kind, words_of_calls(kind), "calls", entries);
  } catch (const Json::exception&) {
    return false;
  }
}

/// Calls that do not block vote where they have found a way themselves.
bool count_nonblocking(const Json& lesson, Entries& entries) {
  try {
    if (lesson.at("told").get<bool>() || lesson.at("nonblocking_way").is_null()) return true;
    if (!is_one_of(lesson, "collective", tuning::collectives) ||
        !is_one_of(lesson, "nonblocking_way", tuning::call_ways))
      return false;
    const Json kind = kind_of_calls(lesson);
    EntryVotes& entry = entries[kind.dump()];
    entry.words = words_of_calls(kind);
    entry.nonblocking.count(lesson.at("nonblocking_way").get<std::string>(),
                            lesson.at("calls").get<std::uint64_t>(), 0);
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

std::vector<TaughtEntry> winners(const Entries& entries) {
  std::vector<TaughtEntry> found;
  for (const auto& [kind, entry] : entries) {
    TaughtEntry taught{.kind = kind,
                       .words = entry.words,
                       .verdict = entry.votes.verdict(),
                       .nonblocking = entry.nonblocking.verdict()};
    const auto suggested = entry.nonblocking_ways.find(taught.verdict.way);
    if (taught.nonblocking.way.empty() && suggested != entry.nonblocking_ways.end())
      taught.nonblocking.way = suggested->second;
    found.push_back(std::move(taught));
  }
  return found;
}

void add_verdict(Json& entry, const Verdict& verdict) {
  entry["way"] = verdict.way;
  entry["ticks_per_byte"] = verdict.ticks_per_byte;
  entry["messages"] = verdict.messages;
}

/// Whether an entry of a table is of that kind.
bool is_of_kind(const Json& entry, const Json& kind) {
  return std::ranges::all_of(kind.items(), [&](const auto& part) {
    const auto found = entry.find(part.key());
    return found != entry.end() && *found == part.value();
  });
}

/// The list of that name in `table` with `taught` besides or instead. Calls that block and those that do not
/// share an entry: what is taught of one leaves the other's.
Json list_with(const Json& table, const char* name, const std::vector<TaughtEntry>& taught) {
  Json list = table.value(name, Json::array());
  for (const TaughtEntry& each : taught) {
    const Json kind = Json::parse(each.kind);
    auto entry = std::ranges::find_if(list, [&](const Json& old) { return is_of_kind(old, kind); });
    if (entry == list.end()) entry = list.insert(list.end(), kind);
    if (!each.verdict.way.empty()) add_verdict(*entry, each.verdict);
    // What calls that block suggest takes the place of nothing: it may be what others have found.
    const bool is_found = each.nonblocking.messages > 0;
    if (is_found || (!each.nonblocking.way.empty() && !entry->contains("nonblocking_way")))
      (*entry)["nonblocking_way"] = each.nonblocking.way;
  }
  return list;
}

/// Its way, and who speaks for it: `what` says how messages or calls are named.
std::string text_of(const Verdict& verdict, std::string_view what) {
  return fmt::format("{:<15} {} {} of {} rank{}{}", verdict.way, verdict.messages, what, verdict.ranks,
                     verdict.ranks == 1 ? "" : "s",
                     verdict.others > 0 ? fmt::format(", {} found another", verdict.others) : "");
}

void print(const TaughtEntry& taught, std::string_view what) {
  if (!taught.verdict.way.empty()) fmt::print("  {} {}\n", taught.words, text_of(taught.verdict, what));
  if (taught.nonblocking.messages > 0)
    fmt::print("  {} {} that do not block\n", taught.words, text_of(taught.nonblocking, what));
}

/// Calls `take` with each lesson of a rank in the list of that name; false where one is nonsense.
template <class Take>
bool each_lesson(const Json& rank, const char* list, const Take& take) {
  if (!rank.is_object()) return true;
  const Json lessons = rank.value(list, Json::array());
  return lessons.is_array() && std::ranges::all_of(lessons, take);
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
  fmt::print("  from {:<9} {:<18} {}{}{}\n", size_text(taught.from),
             taught.several ? "several at a time" : "one at a time", text_of(taught.verdict, "messages"),
             taught.any_way ? "" : ", data with gaps or for one side to copy",
             taught.same_socket ? "" : ", from other sockets");
}

}  // namespace

std::expected<TaughtAll, std::string> taught_by(const std::vector<std::string>& reports) {
  std::map<Kind, Votes> votes;
  Entries eager;
  Entries gpu;
  Entries collectives;
  for (const std::string& text : reports) {
    const Json report = Json::parse(text, nullptr, false);
    if (!report.is_object() || !report.contains("ranks") || !report["ranks"].is_array())
      return std::unexpected("a job has told nonsense");
    for (const Json& rank : report["ranks"])
      if (!each_lesson(rank, "live", [&](const Json& lesson) { return count(lesson, votes); }) ||
          !each_lesson(rank, "live_eager", [&](const Json& lesson) { return count_eager(lesson, eager); }) ||
          !each_lesson(rank, "live_gpu", [&](const Json& lesson) { return count_gpu(lesson, gpu); }) ||
          !each_lesson(rank, "live_collectives",
                       [&](const Json& lesson) { return count_collective(lesson, collectives); }) ||
          !each_lesson(rank, "live_nonblocking",
                       [&](const Json& lesson) { return count_nonblocking(lesson, collectives); }))
        return std::unexpected("a job has told nonsense of its messages");
  }
  TaughtAll taught{
      .ways = {}, .eager = winners(eager), .gpu = winners(gpu), .collectives = winners(collectives)};
  taught.ways.reserve(votes.size());
  for (const auto& [kind, found] : votes)
    taught.ways.push_back(winner(kind, found));
  return taught;
}

std::string with_taught(const std::string& table, const TaughtAll& taught) {
  Json result = Json::parse(table.empty() ? table_text({}) : table);
  Json kept = Json::array();
  for (const Json& entry : result.value("taught", Json::array()))
    if (std::ranges::none_of(taught.ways, [&](const Taught& each) { return same_kind(entry, each); }))
      kept.push_back(entry);
  for (const Taught& each : taught.ways) {
    Json entry{{"from", each.from},
               {"same_socket", each.same_socket},
               {"any_way", each.any_way},
               {"several", each.several}};
    add_verdict(entry, each.verdict);
    kept.push_back(std::move(entry));
  }
  result["taught"] = std::move(kept);
  result["taught_eager"] = list_with(result, "taught_eager", taught.eager);
  result["taught_gpu"] = list_with(result, "taught_gpu", taught.gpu);
  result["taught_collectives"] = list_with(result, "taught_collectives", taught.collectives);
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
               taught ? "no kind of long messages, messages in GPU memory or collectives came often enough "
                        "to teach anything (a hundred times)"
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
  if (!taught->ways.empty()) fmt::print("The fastest ways of long messages:\n");
  for (const Taught& each : taught->ways)
    print(each);
  if (!taught->eager.empty()) fmt::print("Whether messages go with their envelope:\n");
  for (const TaughtEntry& each : taught->eager)
    print(each, "messages");
  if (!taught->gpu.empty()) fmt::print("The fastest ways of messages in GPU memory:\n");
  for (const TaughtEntry& each : taught->gpu)
    print(each, "messages");
  if (!taught->collectives.empty()) fmt::print("The fastest ways of collectives:\n");
  for (const TaughtEntry& each : taught->collectives)
    print(each, "calls");
  fmt::print("Written: {}\n", path);
  return 0;
}

}  // namespace isthmus::tool
