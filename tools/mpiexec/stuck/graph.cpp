#include "stuck/graph.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <string_view>

namespace isthmus::mpiexec::stuck {
namespace {

using wire::WaitItem;
using wire::WaitReport;
using Where = RankState::Where;

/// Of MPI_COMM_WORLD, whose members are all ranks.
constexpr std::uint64_t world_context = 0;
constexpr std::size_t most_circles = 8;
/// Of one rank: with more of them, what follows of thousands of ranks would take too long to find. Without
/// the rest a rank may be taken for one that can go on.
constexpr std::size_t most_clauses = 64;

/// Collectives that one member can leave before all have come: who is not in it may have left it.
bool is_one_way(std::string_view call) {
  return call.starts_with("MPI_Bcast") || call.starts_with("MPI_Scatter");
}

}  // namespace

bool is_in_finalize(const RankState& rank) noexcept {
  return rank.where == Where::waiting && std::string_view(rank.report.call.data()) == "MPI_Finalize";
}

WaitGraph::WaitGraph(const std::vector<RankState>& ranks) : ranks_(ranks), clauses_(ranks.size()) {
  for (std::size_t i = 0; i < ranks.size(); ++i)
    places_.emplace(ranks[i].rank, i);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].where != Where::waiting) continue;
    if (is_in_finalize(ranks[i]))
      add_finalize(i);
    else if (ranks[i].report.collective_number != 0 && ranks[i].report.knows_members)
      add_collective(i);
    else
      add_messages(i);
  }
  find_dead();
}

std::optional<std::size_t> WaitGraph::find(std::int64_t rank) const {
  if (rank < 0) return std::nullopt;
  const auto found = places_.find(static_cast<std::uint32_t>(rank));
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

void WaitGraph::add_messages(std::size_t rank) {
  const WaitReport& report = ranks_[rank].report;
  Clause any;
  for (const WaitItem& item : std::span(report.item).first(report.items)) {
    if ((item.flags & WaitItem::awaited) == 0) continue;
    const auto peer = find(item.peer);
    if (!peer && item.peer == wire::wait_any_peer && item.context == world_context &&
        item.kind != WaitItem::Kind::collective) {
      Clause anybody;
      for (std::size_t other = 0; other < ranks_.size(); ++other)
        if (other != rank) anybody.push_back(other);
      if (report.any)
        any.insert(any.end(), anybody.begin(), anybody.end());
      else
        clauses_[rank].push_back(std::move(anybody));
      continue;
    }
    // Of others who are not known: nothing follows.
    if (!peer) {
      if (report.any) return;
      continue;
    }
    if (report.any)
      any.push_back(*peer);
    else
      clauses_[rank].push_back({*peer});
  }
  if (!any.empty()) clauses_[rank].push_back(std::move(any));
}

bool WaitGraph::has_come(std::size_t other, std::uint64_t context, std::uint64_t number) const {
  if (ranks_[other].where != Where::waiting) return false;
  const WaitReport& report = ranks_[other].report;
  for (const wire::WaitComm& comm : std::span(report.comm).first(report.comms))
    if (comm.context == context) return comm.calls >= number;
  return false;
}

std::vector<std::size_t> WaitGraph::missing(std::size_t rank) const {
  const WaitReport& report = ranks_[rank].report;
  std::vector<std::size_t> result;
  if (!report.knows_members) return result;
  for (const wire::WaitRange& range : std::span(report.range).first(report.ranges))
    for (std::uint32_t i = 0; i < range.count; ++i) {
      const auto other = find(range.first + std::int64_t{i} * range.stride);
      if (other && *other != rank && !has_come(*other, report.collective_context, report.collective_number))
        result.push_back(*other);
    }
  std::ranges::sort(result);
  return result;
}

void WaitGraph::add_collective(std::size_t rank) {
  const WaitReport& report = ranks_[rank].report;
  const std::vector<std::size_t> others = missing(rank);
  if (others.empty()) return add_messages(rank);  // all have come: what is under way says more
  const auto root = find(report.root_process);
  // Who only receives from the root waits for nobody else.
  if (is_one_way(report.call.data()) && root && *root != rank) {
    if (std::ranges::find(others, *root) != others.end()) clauses_[rank].push_back({*root});
    return;
  }
  for (const std::size_t other : std::span(others).first(std::min(others.size(), most_clauses)))
    clauses_[rank].push_back({other});
}

void WaitGraph::add_finalize(std::size_t rank) {
  for (std::size_t other = 0; other < ranks_.size(); ++other) {
    const Where where = ranks_[other].where;
    if (clauses_[rank].size() == most_clauses) return;
    if (other != rank && where != Where::finalized && where != Where::ended && !is_in_finalize(ranks_[other]))
      clauses_[rank].push_back({other});
  }
}

/// At first everybody who waits for something is dead; then all come to life for whom each clause has
/// somebody who lives, until nothing changes.
void WaitGraph::find_dead() {
  dead_.resize(ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Where where = ranks_[i].where;
    // Of several threads one is told of, and another may go on.
    dead_[i] = (!clauses_[i].empty() && ranks_[i].report.others == 0) || where == Where::ended ||
               where == Where::finalized;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!dead_[i] || clauses_[i].empty()) continue;
      const bool lives = std::ranges::all_of(clauses_[i], [&](const Clause& clause) {
        return std::ranges::any_of(clause, [&](std::size_t other) { return !dead_[other]; });
      });
      if (lives) {
        dead_[i] = false;
        changed = true;
      }
    }
  }
}

std::vector<std::vector<std::size_t>> WaitGraph::circles() const {
  // Each dead rank has a clause of the dead alone; the first who waits too is the one to go on with.
  const auto next = [&](std::size_t rank) -> std::optional<std::size_t> {
    std::optional<std::size_t> any;
    for (const Clause& clause : clauses_[rank]) {
      if (!std::ranges::all_of(clause, [&](std::size_t other) { return dead_[other]; })) continue;
      for (const std::size_t other : clause) {
        if (clauses_[other].empty()) continue;
        // The shortest circle is the clearest.
        const auto back = std::ranges::find_if(clauses_[other], [&](const Clause& of_other) {
          return std::ranges::find(of_other, rank) != of_other.end();
        });
        if (back != clauses_[other].end()) return other;
        if (!any) any = other;
      }
    }
    return any;
  };
  std::vector<std::vector<std::size_t>> result;
  std::vector<std::size_t> visited(ranks_.size(), 0);  // by which walk, from 1
  for (std::size_t start = 0; start < ranks_.size() && result.size() < most_circles; ++start) {
    std::vector<std::size_t> walk;
    std::optional<std::size_t> at = start;
    while (at && dead_[*at] && !clauses_[*at].empty() && visited[*at] == 0) {
      visited[*at] = start + 1;
      walk.push_back(*at);
      at = next(*at);
    }
    if (!at || visited[*at] != start + 1) continue;
    const auto begin = std::ranges::find(walk, *at);
    if (begin != walk.end()) result.emplace_back(begin, walk.end());
  }
  return result;
}

std::vector<std::size_t> WaitGraph::waiting_for(std::size_t rank) const {
  std::vector<std::vector<std::size_t>> waiters(ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    for (const Clause& clause : clauses_[i])
      for (const std::size_t other : clause)
        waiters[other].push_back(i);
  std::set<std::size_t> found;
  std::vector<std::size_t> open{rank};
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    for (const std::size_t waiter : waiters[at])
      if (waiter != rank && found.insert(waiter).second) open.push_back(waiter);
  }
  return {found.begin(), found.end()};
}

}  // namespace isthmus::mpiexec::stuck
