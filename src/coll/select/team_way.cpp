#include "coll/select/team_way.hpp"

#include <array>

#include "coll/area/team_area.hpp"

namespace isthmus::coll {
namespace {

constexpr std::array<std::string_view, team_way_count> names{
    "flat", "staged", "counted", "direct", "direct_both", "direct_all", "messages", "tree"};

/// What the stage of an alltoall may take of the region.
constexpr std::uint64_t most_staged = 4 << 20;
/// Every member fetches everything of everybody.
constexpr int most_fetch_all = 4;
/// Blocks travel along a tree as often as it has levels.
constexpr std::uint64_t longest_in_tree = 64 * 1024;

/// `blocks` of `bytes` each come to no more than `most`.
bool fit(std::uint64_t bytes, std::uint64_t blocks, std::uint64_t most) noexcept {
  return bytes <= most / blocks;
}

TeamWays ways_of_move(const Question& question) noexcept {
  const auto n = static_cast<std::uint64_t>(question.ranks);
  TeamWays ways;
  ways.add(TeamWay::messages);
  if (question.direct && question.collective != Collective::gather &&
      question.collective != Collective::scatter)
    ways.add(TeamWay::direct);
  switch (question.collective) {
    case Collective::bcast:
      ways.add(question.bytes <= slot_bytes ? TeamWay::flat : TeamWay::staged);
      if (question.direct && question.ranks == 2) ways.add(TeamWay::direct_both);
      break;
    case Collective::gather:
      if (question.bytes <= slot_bytes) ways.add(TeamWay::flat);
      if (question.bytes <= longest_in_tree) ways.add(TeamWay::tree);
      break;
    case Collective::scatter:
      if (fit(question.bytes, n, slot_bytes)) ways.add(TeamWay::flat);
      if (question.bytes <= longest_in_tree) ways.add(TeamWay::tree);
      break;
    case Collective::allgather:
      ways.add(question.bytes <= slot_bytes ? TeamWay::flat : TeamWay::staged);
      break;
    case Collective::alltoall:
      if (fit(question.bytes, n, slot_bytes)) ways.add(TeamWay::flat);
      if (fit(question.bytes, n * n, most_staged)) ways.add(TeamWay::staged);
      break;
    default:
      return {};
  }
  return ways;
}

TeamWays ways_of_reduction(const Question& question, const Reducing& reducing) noexcept {
  TeamWays ways;
  if (!reducing.elementwise || question.collective == Collective::scan) return ways;
  const bool in_slots = question.ranks <= flat_ranks && question.bytes <= slot_bytes;
  if (in_slots) ways.add(TeamWay::flat);
  if (question.direct) ways.add(TeamWay::direct);
  if (question.collective == Collective::reduce_scatter) return ways;
  ways.add(TeamWay::staged);
  if (in_slots && question.ranks <= arity && reducing.in_order) ways.add(TeamWay::counted);
  if (question.direct && question.collective == Collective::allreduce && question.ranks <= most_fetch_all)
    ways.add(TeamWay::direct_all);
  return ways;
}

}  // namespace

std::string_view name(TeamWay way) noexcept {
  return names[static_cast<std::size_t>(way)];
}

std::optional<TeamWay> way_of(CollectiveWaySetting setting) noexcept {
  static_assert(static_cast<std::size_t>(CollectiveWaySetting::tree) == team_way_count);
  if (setting == CollectiveWaySetting::automatic) return std::nullopt;
  return static_cast<TeamWay>(static_cast<std::size_t>(setting) - 1);
}

TeamWays ways_of(const Question& question, const Reducing& reducing) noexcept {
  return question.collective >= Collective::reduce ? ways_of_reduction(question, reducing)
                                                   : ways_of_move(question);
}

std::optional<TeamWay> way_of(Algorithm algorithm, Collective collective) noexcept {
  const bool of_root = collective == Collective::gather || collective == Collective::scatter;
  switch (algorithm) {
    case Algorithm::flat:
      return TeamWay::flat;
    case Algorithm::staged:
      return TeamWay::staged;
    case Algorithm::counted:
      return TeamWay::counted;
    case Algorithm::direct:
      return TeamWay::direct;
    case Algorithm::direct_both:
      return TeamWay::direct_both;
    case Algorithm::direct_all:
      return TeamWay::direct_all;
    case Algorithm::leaders:
    case Algorithm::segments:
    case Algorithm::slices:
    case Algorithm::along:
      return std::nullopt;
    case Algorithm::binomial:
      return of_root ? TeamWay::tree : TeamWay::messages;
    default:
      return TeamWay::messages;
  }
}

Algorithm algorithm_of(TeamWay way, Question question) noexcept {
  switch (way) {
    case TeamWay::flat:
      return Algorithm::flat;
    case TeamWay::staged:
      return Algorithm::staged;
    case TeamWay::counted:
      return Algorithm::counted;
    case TeamWay::direct:
      return Algorithm::direct;
    case TeamWay::direct_both:
      return Algorithm::direct_both;
    case TeamWay::direct_all:
      return Algorithm::direct_all;
    case TeamWay::tree:
      return Algorithm::binomial;
    case TeamWay::messages:
      break;
  }
  if (question.collective == Collective::gather || question.collective == Collective::scatter)
    return Algorithm::linear;
  question.shared = question.direct = false;
  question.domains = Domains::none;
  return select(question);
}

}  // namespace isthmus::coll
