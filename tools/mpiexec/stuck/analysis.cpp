#include "stuck/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>

#include "stuck/graph.hpp"
#include "stuck/text.hpp"

namespace isthmus::mpiexec::stuck {
namespace {

using wire::WaitItem;
using wire::WaitReport;
using Where = RankState::Where;

constexpr std::size_t most_of_a_kind = 8;

/// Findings of one kind: beyond a few they are only counted.
class Sentences {
 public:
  explicit Sentences(std::vector<std::string>& all) : all_(all) {}
  ~Sentences() {
    if (count_ > most_of_a_kind)
      all_.push_back(fmt::format("(and {} more like that)", count_ - most_of_a_kind));
  }
  Sentences(const Sentences&) = delete;
  Sentences& operator=(const Sentences&) = delete;
  void add(std::string sentence) {
    if (count_++ < most_of_a_kind) all_.push_back(std::move(sentence));
  }

 private:
  std::vector<std::string>& all_;
  std::size_t count_ = 0;
};

class Analysis {
 public:
  explicit Analysis(const std::vector<RankState>& ranks) : ranks_(ranks), graph_(ranks) {}

  std::vector<std::string> findings() {
    find_mismatches();
    find_collectives();
    find_circles();
    find_late();
    return std::move(findings_);
  }

 private:
  struct Call {
    std::string function;
    std::int32_t root;
    std::uint64_t bytes;
    auto operator<=>(const Call&) const = default;
  };

  void find_mismatches();
  static std::string mismatch(const RankState& rank, const WaitItem& wanted, const WaitItem& come);
  void find_collectives();
  void compare_calls(const std::vector<std::size_t>& members);
  void find_missing(const std::vector<std::size_t>& members);
  void find_circles();
  void find_late();

  [[nodiscard]] std::string list(const std::vector<std::size_t>& places) const {
    std::vector<std::uint32_t> numbers;
    numbers.reserve(places.size());
    for (const std::size_t place : places)
      numbers.push_back(ranks_[place].rank);
    std::ranges::sort(numbers);
    return list_ranks(numbers);
  }

  const std::vector<RankState>& ranks_;
  WaitGraph graph_;
  std::vector<std::string> findings_;
};

bool matches(std::int32_t wanted, std::int32_t is, std::int32_t any) {
  return wanted == any || wanted == is;
}

/// Why what has come is not what is wanted, where the two are near; empty where they have nothing in common.
std::string Analysis::mismatch(const RankState& rank, const WaitItem& wanted, const WaitItem& come) {
  const bool same_peer = matches(wanted.peer, come.peer, wire::wait_any_peer);
  const bool same_tag = matches(wanted.tag, come.tag, wire::wait_any_tag);
  const bool same_comm = wanted.context == come.context;
  const std::string from =
      wanted.peer == wire::wait_any_peer ? "" : fmt::format(" from rank {}", wanted.peer);
  const std::string there = name_of(come.context, rank.report), here = name_of(wanted.context, rank.report);
  if (same_comm && same_peer && !same_tag)
    return fmt::format("rank {} has sent tag {} ({}) to rank {}; rank {} waits for tag {}{}, on {}",
                       come.peer, come.tag, bytes_text(come.bytes), rank.rank, rank.rank, wanted.tag, from,
                       here);
  if (!same_comm && same_peer && same_tag)
    return fmt::format("rank {} has sent tag {} to rank {} on {}; rank {} waits for it{} on {}", come.peer,
                       come.tag, rank.rank, there, rank.rank, from, here);
  if (same_comm && same_tag && !same_peer)
    return fmt::format("rank {} has sent tag {} to rank {}; rank {} waits for it{}, on {}", come.peer,
                       come.tag, rank.rank, rank.rank, from, here);
  return "";
}

void Analysis::find_mismatches() {
  Sentences sentences(findings_);
  for (const RankState& rank : ranks_) {
    if (rank.where != Where::waiting) continue;
    const auto items = std::span(rank.report.item).first(rank.report.items);
    std::set<std::string> said;
    for (const WaitItem& wanted : items) {
      const bool is_receive = wanted.kind == WaitItem::Kind::receive || wanted.kind == WaitItem::Kind::probe;
      const std::uint32_t unfit = WaitItem::matched | WaitItem::inner;
      if (!is_receive || (wanted.flags & WaitItem::awaited) == 0 || (wanted.flags & unfit) != 0) continue;
      for (const WaitItem& come : items) {
        if (come.kind != WaitItem::Kind::unmatched || (come.flags & WaitItem::inner) != 0) continue;
        std::string sentence = mismatch(rank, wanted, come);
        if (!sentence.empty() && said.insert(sentence).second) sentences.add(std::move(sentence));
      }
    }
  }
}

void Analysis::find_collectives() {
  std::map<std::uint64_t, std::vector<std::size_t>> by_context;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].where == Where::waiting && ranks_[i].report.collective_number != 0)
      by_context[ranks_[i].report.collective_context].push_back(i);
  for (const auto& [context, members] : by_context) {
    compare_calls(members);
    find_missing(members);
  }
}

/// Calls of one number that are not the same call.
void Analysis::compare_calls(const std::vector<std::size_t>& members) {
  std::map<std::uint64_t, std::map<Call, std::vector<std::size_t>>> by_number;
  for (const std::size_t member : members) {
    const WaitReport& report = ranks_[member].report;
    const std::string function = report.call.data();
    // Only these have as many bytes at all members.
    const bool compares = function == "MPI_Bcast" || function == "MPI_Allreduce" ||
                          function == "MPI_Reduce" || function == "MPI_Scan" || function == "MPI_Exscan";
    const Call call{function, report.root_process,
                    compares ? report.collective_bytes : wire::wait_unknown_bytes};
    by_number[report.collective_number][call].push_back(member);
  }
  for (const auto& [number, calls] : by_number) {
    if (calls.size() < 2) continue;
    std::string text;
    for (const auto& [call, places] : calls) {
      text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", list(places),
                          call.function.empty() ? "another call" : call.function);
      if (call.root >= 0) text += fmt::format(" with root {}", call.root);
      if (call.bytes != wire::wait_unknown_bytes) text += fmt::format(" of {}", bytes_text(call.bytes));
    }
    const WaitReport& report = ranks_[members.front()].report;
    findings_.push_back(fmt::format("collective {} on {} does not fit: {}", number,
                                    name_of(report.collective_context, report), text));
  }
}

/// Who is not in the collective that others wait in, by what they do instead.
void Analysis::find_missing(const std::vector<std::size_t>& members) {
  // Those who miss the same, said together.
  std::map<std::tuple<std::uint64_t, std::string, std::vector<std::size_t>>, std::vector<std::size_t>> groups;
  for (const std::size_t member : members) {
    const WaitReport& report = ranks_[member].report;
    std::vector<std::size_t> missing = graph_.missing(member);
    if (!missing.empty())
      groups[{report.collective_number, std::string(report.call.data()), std::move(missing)}].push_back(
          member);
  }
  for (const auto& [what, waiting] : groups) {
    const auto& [number, function, missing] = what;
    const WaitReport& report = ranks_[waiting.front()].report;
    // Root and leaves of these may leave before others have come.
    const bool may_have_left =
        report.root_process >= 0 || function.contains("scan") || function.contains("Scan");
    std::map<std::string, std::vector<std::size_t>> doing;
    for (const std::size_t other : missing)
      doing[describe_briefly(ranks_[other])].push_back(other);
    std::string text;
    std::size_t said = 0;
    for (const auto& [does, who] : doing) {
      if (said++ == most_of_a_kind) {
        text += "; and others";
        break;
      }
      text += fmt::format("{}{}: {}", said == 1 ? "" : "; ", list(who), does);
    }
    findings_.push_back(fmt::format(
        "{} wait{} in {} (collective {} on {}) for who {}: {}", list(waiting), waiting.size() == 1 ? "s" : "",
        function.empty() ? "a call" : function, number, name_of(report.collective_context, report),
        may_have_left ? "is not in it (has not come, or has left)" : "has not come", text));
  }
}

void Analysis::find_circles() {
  Sentences sentences(findings_);
  for (const std::vector<std::size_t>& circle : graph_.circles()) {
    std::string text = "a circle of waiting: ";
    for (std::size_t i = 0; i < circle.size(); ++i) {
      const std::size_t next = circle[(i + 1) % circle.size()];
      if (i == 10 && circle.size() > 14) {
        text += fmt::format(", ... ({} ranks in all)", circle.size());
        break;
      }
      // In a circle each has a clause with the next: of several of whom one is enough, or of it alone.
      const bool alone = std::ranges::any_of(graph_.clauses(circle[i]), [&](const WaitGraph::Clause& clause) {
        return std::ranges::all_of(clause, [&](std::size_t other) { return other == next; });
      });
      text += fmt::format("{}rank {} waits for rank {}{}", i == 0 ? "" : ", ", ranks_[circle[i]].rank,
                          ranks_[next].rank, alone ? "" : " or others");
      if (ranks_[circle[i]].report.call.front() != '\0')
        text += fmt::format(" ({})", ranks_[circle[i]].report.call.data());
    }
    sentences.add(text + "; none of them can go on");
  }
}

void Analysis::find_late() {
  std::map<std::string, std::vector<std::size_t>> waited_for;
  std::map<std::string, std::set<std::size_t>> waiting;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].where == Where::waiting && !ranks_[i].is_stopped()) continue;
    const std::vector<std::size_t> waiters = graph_.waiting_for(i);
    if (waiters.empty()) continue;
    const std::string does = describe_briefly(ranks_[i]);
    waited_for[does].push_back(i);
    waiting[does].insert(waiters.begin(), waiters.end());
  }
  for (const auto& [does, who] : waited_for) {
    const std::set<std::size_t>& waiters = waiting[does];
    findings_.push_back(fmt::format("{} wait{}, directly or through others, for {}: {}",
                                    list({waiters.begin(), waiters.end()}), waiters.size() == 1 ? "s" : "",
                                    list(who), does));
  }
}

}  // namespace

std::vector<std::string> analyse(const std::vector<RankState>& ranks) {
  return Analysis(ranks).findings();
}

}  // namespace isthmus::mpiexec::stuck
