// What peers ask for that needs the descriptor of their GPU memory before it has come through the region's
// box. Nothing is waited for while cells are read: what a cell promises may never come.
#include <algorithm>
#include <utility>

#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus {

bool GpuMessages::park(Peer& peer, const Request& request, const wire::GpuOffer& offer,
                       const GpuSource& from) {
  const std::uint64_t allocation = from.memory.memory.allocation;
  if (!exports_.of(peer).awaits(allocation)) return false;
  parked_.push_back({&peer, request.cookie(), allocation, ParkedRead{offer, from}});
  return true;
}

bool GpuMessages::park(Peer& peer, const Request& request, const wire::GpuTarget& target,
                       const wire::GpuExport& to) {
  if (!exports_.of(peer).awaits(to.memory.allocation)) return false;
  // Who asks for the same a second time has the second refused when the first has begun.
  if (std::ranges::find(parked_, request.cookie(), &Parked::request) == parked_.end())
    parked_.push_back({&peer, request.cookie(), to.memory.allocation, ParkedWrite{target, to}});
  return true;
}

void GpuMessages::lost(const Peer& peer) noexcept {
  std::erase_if(parked_, [&peer](const Parked& each) { return each.peer == &peer; });
  exports_.lost(peer);
  lives_.forget();
}

unsigned GpuMessages::poll_parked() {
  exports_.look_for_awaited();
  unsigned happened = 0;
  for (std::size_t i = 0; i < parked_.size();) {
    if (exports_.of(*parked_[i].peer).awaits(parked_[i].allocation)) {
      ++i;
      continue;
    }
    // What goes on answers its peer, whatever becomes of it, and may park others.
    links_.prepare_answer(*parked_[i].peer);
    const Parked each = std::move(parked_[i]);
    parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(i));
    ++happened;
    if (const auto* const write = std::get_if<ParkedWrite>(&each.asked)) {
      if (Request* send = find_pushed(*each.peer, write->target))
        push_to(*each.peer, *send, write->target, write->to);
    } else if (Request* receive = completion_.find(each.request); receive && !receive->complete) {
      const auto& read = std::get<ParkedRead>(each.asked);
      offers_.fetch(*each.peer, *receive, read.offer, read.from);
    }
  }
  return happened;
}

}  // namespace isthmus
