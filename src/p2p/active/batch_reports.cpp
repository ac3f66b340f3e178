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
  if (!peer.in.open()) return;
  wire::BatchReport& told = peer.told;
  // One that its sender has given up meanwhile is nobody's any more.
  if (told.mark != mark.number) {
    if (static_cast<std::int16_t>(mark.number - told.mark) < 0 && told.mark != 0) return;
    told = {.mark = mark.number};
  }
  const std::uint64_t began = std::max(mark.began, peer.told_at);
  const std::uint64_t took = now > began ? now - began : 0;
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  told.ticks = static_cast<std::uint32_t>(std::min(most, told.ticks + std::min(took, most)));
  ++told.count;
  peer.told_at = now;
  peer.in.tell(told);
}

}  // namespace isthmus
