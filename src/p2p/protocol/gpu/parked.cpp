// What peers ask for that needs the descriptor of their GPU memory before it has come through the region's
// box. Nothing is waited for while cells are read: what a cell promises may never come.
#include <algorithm>
#include <chrono>
#include <utility>

#include "launch/visit/descriptor_box.hpp"
#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus {

void GpuMessages::expect_descriptor(const Peer& peer, const wire::GpuExport& what) {
  launch::DescriptorBox* const box = links_.job().box.get();
  if (what.ticket == 0 || !box) return;
  GpuExports& known = exports(peer);
  const std::uint64_t allocation = what.memory.allocation;
  // A cell that is read again, because memory ran out at the first time, has it taken already.
  if (known.keeps(allocation, what.left())) return;
  // One look for many: the others are looked for together.
  const bool is_alone = !known.awaits_any();
  const bool waits = known.await(allocation, what.left(), std::chrono::steady_clock::now());
  const auto take = [box](const wire::DescriptorTicket& ticket) { return box->take_now(ticket); };
  if (!is_alone || !known.look_for(allocation, what.left(), take)) awaits_ |= waits;
}

bool GpuMessages::park(Peer& peer, const Request& request, const wire::GpuOffer& offer,
                       const GpuSource& from) {
  const std::uint64_t allocation = from.memory.memory.allocation;
  if (!exports(peer).awaits(allocation)) return false;
  parked_.push_back({&peer, request.cookie(), allocation, ParkedRead{offer, from}});
  return true;
}

bool GpuMessages::park(Peer& peer, const Request& request, const wire::GpuTarget& target,
                       const wire::GpuExport& to) {
  if (!exports(peer).awaits(to.memory.allocation)) return false;
  // Who asks for the same a second time has the second refused when the first has begun.
  if (std::ranges::find(parked_, request.cookie(), &Parked::request) == parked_.end())
    parked_.push_back({&peer, request.cookie(), to.memory.allocation, ParkedWrite{target, to}});
  return true;
}

void GpuMessages::lost(const Peer& peer) noexcept {
  std::erase_if(parked_, [&peer](const Parked& each) { return each.peer == &peer; });
  if (const auto known = exports_.find(peer.id); known != exports_.end()) known->second.give_up();
}

unsigned GpuMessages::poll_parked() {
  launch::DescriptorBox* const box = links_.job().box.get();
  const auto now = std::chrono::steady_clock::now();
  bool awaits = false;
  for (auto& [id, known] : exports_) {
    if (!known.awaits_any()) continue;
    known.look_for_awaited(now, launch::DescriptorBox::patience,
                           [box](const wire::DescriptorTicket& ticket) { return box->take_now(ticket); });
    awaits |= known.awaits_any();
  }
  awaits_ = awaits;
  unsigned happened = 0;
  for (std::size_t i = 0; i < parked_.size();) {
    if (exports(*parked_[i].peer).awaits(parked_[i].allocation)) {
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
