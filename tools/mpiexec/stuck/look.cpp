#include "stuck/look.hpp"

#include <algorithm>
#include <chrono>

#include "base/system/process_stat.hpp"
#include "place/place.hpp"

namespace isthmus::mpiexec::stuck {
namespace {

using Where = RankState::Where;

/// A shell, a container's client and what else may lie between mpiexec and a rank.
constexpr int most_generations = 8;

/// The state of the rank's own process, which its launcher's child may have started in turn: it has said its
/// pid, which is believed only of a descendant. 0 where it cannot be seen.
char state_of(pid_t child, const wire::PlaceRecord& place) {
  const std::int32_t said = place.pid;
  if (said == 0 || said == child) {
    const auto found = ProcessStat::of(child);
    return found ? found->state : '\0';
  }
  if (said < 0 ||
      place.namespaces[static_cast<std::size_t>(Namespace::pid)] != namespace_here(Namespace::pid))
    return '\0';
  const auto found = ProcessStat::of(said);
  pid_t at = found ? found->parent : 0;
  for (int i = 0; i < most_generations && at > 1 && at != child; ++i) {
    const auto next = ProcessStat::of(at);
    at = next ? next->parent : 0;
  }
  return found && at == child ? found->state : '\0';
}

}  // namespace

std::vector<RankState> look(const LookedAt& at) {
  const std::int64_t now =
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  const wire::RegionView& region = at.region;
  std::vector<RankState> result;
  for (std::uint32_t slot = 0; slot < std::min<std::size_t>(region.slots(), at.children.size()); ++slot) {
    // Which are on other hosts, these tell.
    if (region.block(slot).process.load(std::memory_order_acquire) == wire::RankBlock::elsewhere) continue;
    RankState& state = result.emplace_back();
    state.rank = at.first_rank + slot;
    state.host = at.host;
    const pid_t child = at.children[slot];
    if (child == 0 ||
        (region.block(slot).ending.load(std::memory_order_acquire) & wire::Ending::has_ended) != 0) {
      state.where = Where::ended;
      continue;
    }
    state.process = state_of(child, region.block(slot).place);
    const auto roster = region.roster(state.rank).load(std::memory_order_acquire);
    const auto report = region.wait_board(slot).read();
    if (report && report->waits == 1) {
      state.where = Where::waiting;
      state.report = wire::checked(*report, region.world());
      // A rank may say that it began tomorrow, or before there was time.
      state.seconds = static_cast<double>(now - std::clamp<std::int64_t>(report->began, 0, now)) / 1e9;
    } else if (roster == wire::RosterState::finalized) {
      state.where = Where::finalized;
    } else {
      const bool has_joined = roster == wire::RosterState::joined || at.is_in(slot);
      state.where = has_joined ? Where::outside : Where::before;
    }
  }
  return result;
}

}  // namespace isthmus::mpiexec::stuck
