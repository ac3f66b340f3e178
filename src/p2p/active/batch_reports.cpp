#include "p2p/active/batch_reports.hpp"

#include <algorithm>
#include <limits>

namespace isthmus {

BatchMark BatchReports::begin_marked(std::uint16_t mark, std::uint64_t before) noexcept {
  if (!clock_.on() || clock_.by_work()) return {};
  clock_.attend(1);
  const std::uint64_t now = clock_.present();
  return {.number = mark, .began = now - std::min(now, before)};
}

void BatchReports::end_marked(Peer& peer, const BatchMark& mark) noexcept {
  const std::uint64_t now = clock_.present();
  clock_.attend(-1);
  clock_.linger();
  if (!peer.in.open()) return;
  wire::BatchReport& told = peer.told;
  // One that its sender has given up meanwhile is nobody's any more.
  if (told.mark != mark.number) {
    if (static_cast<std::int16_t>(mark.number - told.mark) < 0 && told.mark != 0) return;
    told = {.mark = mark.number};
    peer.told_from = mark.began;
    peer.told_sum = 0;
  }
  const std::uint64_t began = std::max(mark.began, peer.told_at);
  const std::uint64_t took = now > began ? now - began : 0;
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  peer.told_from = std::min(peer.told_from, mark.began);
  peer.told_sum = std::min(most, peer.told_sum + std::min(took, most));
  ++told.count;
  const bool several = told.count >= wire::BatchReport::several_from;
  const std::uint64_t together = now > peer.told_from ? now - peer.told_from : 0;
  told.ticks =
      static_cast<std::uint32_t>(several ? std::min(most, std::max(peer.told_sum, together)) : peer.told_sum);
  peer.told_at = now;
  peer.in.tell(told);
}

}  // namespace isthmus
