#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "trace/model.hpp"

namespace isthmus::tool::trace {
namespace {

std::string duration(std::int64_t nanoseconds) {
  const auto time = static_cast<double>(nanoseconds);
  if (time < 1e6) return fmt::format("{:.1f} us", time / 1e3);
  if (time < 1e9) return fmt::format("{:.2f} ms", time / 1e6);
  return fmt::format("{:.3f} s", time / 1e9);
}

/// Which collective the call is; empty for other calls.
std::string collective_of(const Job& job, const Rank& rank, const Call& call) {
  if (call.collective == nowhere) return {};
  const isthmus::trace::Collective& what = rank.collectives[call.collective].what;
  return fmt::format(" {} on {}", what.number, name_of_comm(job, what.context));
}

void add_longest(std::string& text, const Job& job) {
  std::vector<std::pair<const Rank*, const Call*>> waits;
  for (const Rank& rank : job.ranks)
    for (const Call& call : rank.calls)
      if (call.is_outermost && call.waits_for >= 0) waits.emplace_back(&rank, &call);
  const auto longer = [](const auto& a, const auto& b) {
    return a.second->waits_until - a.second->begin > b.second->waits_until - b.second->begin;
  };
  std::ranges::stable_sort(waits, longer);
  if (waits.size() > 5) waits.resize(5);
  text += waits.empty() ? "No rank waited for another.\n" : "The longest waits:\n";
  std::int64_t start = job.ranks[0].first;
  for (const Rank& rank : job.ranks)
    start = std::min(start, rank.first);
  for (const auto& [rank, call] : waits)
    fmt::format_to(std::back_inserter(text),
                   "  {:>10}  rank {} for rank {} ({}), in {}{}, {} after the start\n",
                   duration(call->waits_until - call->begin), rank->rank, call->waits_for, call->why,
                   call->name, collective_of(job, *rank, *call), duration(call->begin - start));
}

void add_ranks(std::string& text, const Job& job) {
  fmt::format_to(std::back_inserter(text), "{:<8}{:>14}{:>14}{:>14}{:>14}\n", "rank", "in MPI", "waiting",
                 "copying", "other");
  for (const Rank& rank : job.ranks) {
    std::int64_t all = 0, waiting = 0, copying = 0;
    for (const Call& call : rank.calls) {
      if (!call.is_outermost) continue;
      const std::int64_t waited = call.waits_for >= 0 ? call.waits_until - call.begin : 0;
      all += call.end - call.begin;
      waiting += waited;
      if (call.moves_data) copying += call.end - call.begin - waited;
    }
    fmt::format_to(std::back_inserter(text), "{:<8}{:>14}{:>14}{:>14}{:>14}\n", rank.rank, duration(all),
                   duration(waiting), duration(copying), duration(all - waiting - copying));
  }
}

void add_ways(std::string& text, const Job& job) {
  struct Count {
    std::uint64_t messages = 0, bytes = 0;
  };
  std::map<std::uint16_t, Count> ways;
  std::uint64_t unmatched = 0;
  for (const Message& message : job.messages) {
    if (message.receive == nowhere || message.send == nowhere) ++unmatched;
    if (message.receive == nowhere) continue;
    const Receive& receive = job.ranks[message.to_rank].receives[message.receive];
    Count& count = ways[receive.way];
    ++count.messages;
    count.bytes += receive.bytes;
  }
  if (!ways.empty()) text += "Messages by way, those of collectives too:\n";
  for (const auto& [way, count] : ways)
    fmt::format_to(std::back_inserter(text), "  {:<45}{:>12} messages{:>16} bytes\n", name_of_way(way),
                   count.messages, count.bytes);
  if (unmatched != 0)
    fmt::format_to(std::back_inserter(text), "  {} sends and receives have no other end in the trace\n",
                   unmatched);
}

void add_gaps(std::string& text, const Job& job) {
  const auto say = [&](const std::string& sentence) { text += sentence + "\n"; };
  if (job.ranks.size() < job.size)
    say(fmt::format("Only {} of {} ranks have written a trace that can be read here.", job.ranks.size(),
                    job.size));
  for (const Rank& rank : job.ranks) {
    if (rank.dropped != 0)
      say(fmt::format("rank {}: {} events are missing from {} on: its file was full (--limit).", rank.rank,
                      rank.dropped, duration(rank.last - rank.first)));
    if (rank.is_cut)
      say(fmt::format("rank {}: its file is damaged; what is before that is shown.", rank.rank));
  }
  if (job.kernels > 1)
    say(fmt::format(
        "The ranks are on {} kernels: their clocks are aligned by the messages between them, to {}{}",
        job.kernels, duration(job.clock_error),
        job.is_aligned_roughly ? "; where none went both ways, by the time of day, no better than that is."
                               : "."));
}

}  // namespace

std::string summary(const Job& job) {
  std::string text;
  add_longest(text, job);
  add_ranks(text, job);
  add_ways(text, job);
  add_gaps(text, job);
  return text;
}

}  // namespace isthmus::tool::trace
