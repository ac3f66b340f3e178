// What peers ask for that needs the descriptor of their GPU memory before it has come through the region's
// box. Nothing is waited for while cells are read: what a cell promises may never come.
#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "launch/descriptor_box.hpp"
#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus {

void GpuMessages::expect_descriptor(const Peer& peer, const wire::GpuExport& what) {
  launch::DescriptorBox* const box = links_.job().box.get();
  if (what.ticket == 0 || !box) return;
  GpuExports& known = exports(peer);
  // One look for many: the others are looked for together.
  UniqueFd descriptor = known.awaits_any() ? UniqueFd() : box->take_now(what.left());
  if (descriptor)
    known.keep(what.memory.allocation, std::move(descriptor));
  else
    awaits_ |= known.await(what.memory.allocation, what.left(), std::chrono::steady_clock::now());
}

bool GpuMessages::park(Peer& peer, const Request& request, const wire::GpuOffer& offer,
                       const GpuSource& from) {
  if (!exports(peer).awaits(from.memory.memory.allocation)) return false;
  parked_.push_back({&peer, request.cookie(), offer, from, std::nullopt});
  return true;
}

bool GpuMessages::park(Peer& peer, const Request& request, const wire::GpuTarget& target,
                       const wire::GpuExport& to) {
  if (!exports(peer).awaits(to.memory.allocation)) return false;
  // Who asks for the same a second time has the second refused when the first has begun.
  if (std::ranges::find(parked_, request.cookie(), &Parked::request) == parked_.end())
    parked_.push_back({&peer, request.cookie(), {}, {.memory = to, .shape = {}}, target});
  return true;
}

unsigned GpuMessages::poll_parked() {
  launch::DescriptorBox* const box = links_.job().box.get();
  const auto now = std::chrono::steady_clock::now();
  awaits_ = false;
  for (auto& [id, known] : exports_) {
    if (!known.awaits_any()) continue;
    known.look_for_awaited(now, launch::DescriptorBox::patience,
                           [box](const wire::DescriptorTicket& ticket) { return box->take_now(ticket); });
    awaits_ |= known.awaits_any();
  }
  std::vector<Parked> ready;
  std::erase_if(parked_, [&](Parked& each) {
    if (exports(*each.peer).awaits(each.from.memory.memory.allocation)) return false;
    ready.push_back(std::move(each));
    return true;
  });
  for (const Parked& each : ready) {
    if (each.target) {
      if (Request* send = find_pushed(*each.peer, *each.target))
        push_to(*each.peer, *send, *each.target, each.from.memory);
    } else if (Request* receive = completion_.find(each.request); receive && !receive->complete) {
      offers_.fetch(*each.peer, *receive, each.offer, each.from);
    }
  }
  return static_cast<unsigned>(ready.size());
}

}  // namespace isthmus
