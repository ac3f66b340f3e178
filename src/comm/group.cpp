#include "comm/group.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace isthmus {

Group::Group(std::vector<PeerId> members, Ref<SessionBuffer> session_buffer)
    : members_(std::move(members)), session_buffer_(std::move(session_buffer)) {
  if (std::ranges::is_sorted(members_)) return;
  sorted_.reserve(members_.size());
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
    sorted_.emplace_back(members_[rank], rank);
  std::ranges::sort(sorted_);
}

std::optional<std::uint32_t> Group::rank_of(PeerId process) const noexcept {
  if (process < members_.size() && members_[process] == process) return process;
  if (sorted_.empty()) {
    const auto found = std::ranges::lower_bound(members_, process);
    if (found == members_.end() || *found != process) return std::nullopt;
    return static_cast<std::uint32_t>(found - members_.begin());
  }
  const auto found = std::ranges::lower_bound(sorted_, process, {}, &std::pair<PeerId, std::uint32_t>::first);
  if (found == sorted_.end() || found->first != process) return std::nullopt;
  return found->second;
}

Comparison compare(const Group& first, const Group& second) {
  if (first.size() != second.size()) return Comparison::unequal;
  if (std::ranges::equal(first.members(), second.members())) return Comparison::identical;
  const bool same_members =
      std::ranges::all_of(first.members(), [&](PeerId process) { return second.contains(process); });
  return same_members ? Comparison::similar : Comparison::unequal;
}

Ref<Group> unite(const Group& first, const Group& second) {
  std::vector<PeerId> members(first.members().begin(), first.members().end());
  std::ranges::copy_if(second.members(), std::back_inserter(members),
                       [&](PeerId process) { return !first.contains(process); });
  // One of them may be empty, and then come from nowhere.
  return make_ref<Group>(std::move(members),
                         first.session_buffer() ? first.session_buffer() : second.session_buffer());
}

Ref<Group> intersect(const Group& first, const Group& second) {
  std::vector<PeerId> members;
  std::ranges::copy_if(first.members(), std::back_inserter(members),
                       [&](PeerId process) { return second.contains(process); });
  return make_ref<Group>(std::move(members), first.session_buffer());
}

Ref<Group> subtract(const Group& first, const Group& second) {
  std::vector<PeerId> members;
  std::ranges::copy_if(first.members(), std::back_inserter(members),
                       [&](PeerId process) { return !second.contains(process); });
  return make_ref<Group>(std::move(members), first.session_buffer());
}

namespace {

/// Which ranks `ranks` names; fails for one that does not exist or comes twice.
Result<std::vector<bool>> mark(const Group& group, std::span<const int> ranks) {
  std::vector<bool> named(group.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int rank = ranks[i];
    if (rank < 0 || static_cast<std::uint32_t>(rank) >= group.size())
      return fail(ErrorClass::rank,
                  fmt::format("ranks[{}] is {}, but the group has {} members", i, rank, group.size()));
    if (named[static_cast<std::size_t>(rank)])
      return fail(ErrorClass::rank, fmt::format("ranks[{}] is {}, which was named before", i, rank));
    named[static_cast<std::size_t>(rank)] = true;
  }
  return named;
}

}  // namespace

Result<Ref<Group>> include(const Group& group, std::span<const int> ranks) {
  ISTHMUS_TRY(mark(group, ranks));
  std::vector<PeerId> members;
  members.reserve(ranks.size());
  for (const int rank : ranks)
    members.push_back(group.process(static_cast<std::uint32_t>(rank)));
  return make_ref<Group>(std::move(members), group.session_buffer());
}

Result<Ref<Group>> exclude(const Group& group, std::span<const int> ranks) {
  Result<std::vector<bool>> excluded = mark(group, ranks);
  if (!excluded) return std::unexpected(std::move(excluded).error());
  std::vector<PeerId> members;
  members.reserve(group.size() - ranks.size());
  for (std::uint32_t rank = 0; rank < group.size(); ++rank)
    if (!(*excluded)[rank]) members.push_back(group.process(rank));
  return make_ref<Group>(std::move(members), group.session_buffer());
}

Result<std::vector<int>> expand(const Group& group, std::span<const RankRange> ranges) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto [first, last, stride] = ranges[i];
    if (stride == 0) return fail(ErrorClass::arg, fmt::format("the stride of ranges[{}] is 0", i));
    const std::int64_t steps = (std::int64_t{last} - first) / stride;
    if (steps < 0 || (first != last && (last > first) != (stride > 0)))
      return fail(ErrorClass::arg,
                  fmt::format("ranges[{}] goes from {} to {} in steps of {}, which lead away", i, first, last,
                              stride));
    const std::int64_t end = first + steps * stride;
    const std::int64_t outside = first < 0 || std::int64_t{first} >= group.size() ? first : end;
    if (outside < 0 || outside >= group.size())
      return fail(ErrorClass::rank, fmt::format("ranges[{}] contains rank {}, but the group has {} members",
                                                i, outside, group.size()));
    if (ranks.size() + static_cast<std::size_t>(steps) >= group.size())
      return fail(ErrorClass::rank, fmt::format("ranges[{}] names a rank that was named before", i));
    for (std::int64_t step = 0; step <= steps; ++step)
      ranks.push_back(static_cast<int>(first + step * stride));
  }
  return ranks;
}

Result<> translate(const Group& from, std::span<const int> ranks, const Group& to, std::span<int> result) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int rank = ranks[i];
    if (rank == null_process) {
      result[i] = null_process;
      continue;
    }
    if (rank < 0 || static_cast<std::uint32_t>(rank) >= from.size())
      return fail(ErrorClass::rank,
                  fmt::format("ranks1[{}] is {}, but group1 has {} members", i, rank, from.size()));
    const auto there = to.rank_of(from.process(static_cast<std::uint32_t>(rank)));
    result[i] = there ? static_cast<int>(*there) : undefined;
  }
  return {};
}

}  // namespace isthmus
