#pragma once

#include <cstdint>

#include "p2p/link/links.hpp"
#include "p2p/message/request.hpp"
#include "route/live_plans.hpp"

namespace isthmus {

/// Tells senders what the messages that they have marked take this rank (`EagerPlans`), without the time in
/// which the rank is not in MPI. Of a few of the same mark it is the sum of what each takes from its match to
/// its last byte, without what an earlier marked message of the same sender has been told to take. Of several
/// it is what they take together, from the first match on: while the rank waits for the next one, its sender
/// is writing, or waits for room in the ring. Nothing is told where this rank does not measure plans. Guarded
/// by the engine's lock.
///
/// While a marked message is under way, the ends of others count as well: a marked one that waits behind them
/// has not taken that time.
class BatchReports {
 public:
  explicit BatchReports(LivePlans& clock) noexcept : clock_(clock) {}

  /// A message with that mark begins to come to its receive, which has cost `before` ticks already.
  [[nodiscard]] BatchMark begin(std::uint16_t mark, std::uint64_t before = 0) noexcept {
    return mark == 0 ? BatchMark() : begin_marked(mark, before);
  }
  /// Its last byte is there.
  void end(Peer& peer, const BatchMark& mark) noexcept {
    if (mark.number != 0)
      end_marked(peer, mark);
    else if (clock_.is_attended()) [[unlikely]]
      peer.told_at = clock_.present();
  }
  /// Now, of a marked message; 0 of others.
  [[nodiscard]] std::uint64_t now(std::uint16_t mark) const noexcept { return mark == 0 ? 0 : ticks(); }

 private:
  BatchMark begin_marked(std::uint16_t mark, std::uint64_t before) noexcept;
  void end_marked(Peer& peer, const BatchMark& mark) noexcept;

  LivePlans& clock_;
};

}  // namespace isthmus
