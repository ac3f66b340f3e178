#include "p2p/link/peer_access.hpp"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "channel/cma/refusal.hpp"
#include "datatype/cursor.hpp"

namespace isthmus {
namespace {

/// As the kernel allows it: what it has answered is told by the reports in its own words.
Probed ask_of_pull(const PairFacts& facts) noexcept {
  if (!facts.is_other_process()) return std::unexpected(no_neighbour);
  if (facts.is_managed()) return std::unexpected(of_another_process);
  if (!facts.pull) return std::unexpected("the peer's memory cannot be read");
  return Serves{};
}

Probed ask_of_beside(const PairFacts& facts) noexcept {
  if (!facts.beside) return std::unexpected("the peer is no rank of this process");
  if (facts.is_managed()) return std::unexpected(of_another_process);
  return Serves{};
}

}  // namespace

constinit const Probe PeerAccess::probe_of_pull{Protocol::pull, ChannelId::cma, Cost::one_copies,
                                                &ask_of_pull};
constinit const Probe PeerAccess::probe_of_beside{Protocol::beside, ChannelId::process, Cost::one_copy,
                                                  &ask_of_beside};

Result<> PeerAccess::publish() {
  if (::getrandom(&probe_.nonce, sizeof probe_.nonce, 0) != sizeof probe_.nonce)
    return fail(ErrorClass::other, "no random numbers from the kernel");
  // Lets peers read this process's memory where Yama would refuse siblings (ptrace_scope 1); without Yama it
  // fails, which is as good.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  wire::PlaceRecord& place = links_.region().block(links_.slot()).place;
  place.probe_nonce = probe_.nonce;
  std::atomic_ref(place.probe_address)
      .store(reinterpret_cast<std::uint64_t>(&probe_), std::memory_order_release);
  return {};
}

bool PeerAccess::can_probe(const Peer& peer) const noexcept {
  if (peer.probed || peer.id == links_.rank() || !peer.is_local()) return true;
  wire::PlaceRecord& published = links_.region().block(peer.slot).place;
  return std::atomic_ref(published.probe_address).load(std::memory_order_acquire) != 0;
}

void PeerAccess::try_it(Peer& peer) {
  if (peer.id == links_.rank() || !peer.is_local()) {
    peer.probed = true;
    return;
  }
  const Settings& settings = links_.settings();
  const bool in_process = links_.job().in_process;
  if (!can_probe(peer)) return;  // try again next time
  const auto place = wire::copy_out<wire::PlaceRecord>(&links_.region().block(peer.slot).place);
  const auto to_reach = [&](Result<> result) -> Reach {
    if (result) return {};
    cma::Refusal why =
        cma::explain_refusal(result.error(), links_.region().block(links_.slot()).place, place);
    return std::unexpected(Reason{.text = std::move(why.text), .remedy = why.remedy});
  };
  if (settings.cma == CmaSetting::off) {
    peer.pull = peer.push = std::unexpected(
        Reason{.text = "switched off by ISTHMUS_CMA=off", .remedy = "leave ISTHMUS_CMA at its default"});
  } else if (!links_.same_machine(peer.slot)) {
    peer.pull = peer.push = std::unexpected(Reason{"it is in another virtual machine"});
  } else if (place.pid == ::getpid() && !in_process) {
    // Containers often have the same pid inside.
    peer.pull = peer.push =
        std::unexpected(Reason{.text = "it has the pid of this process, " + std::to_string(place.pid) +
                                       ", in a pid namespace of its own",
                               .remedy = cma::one_pid_namespace});
  } else if (Result<> apart = in_process ? Result<>() : cma::check_apart(place.pid); !apart) {
    // A peer that names this process as its own, with the nonce that is published for this one, would have it
    // write wherever the peer likes.
    peer.pull = peer.push = to_reach(std::move(apart));
  } else {
    peer.pid = place.pid;
    peer.pull = to_reach(cma::try_read(place.pid, place.probe_address, place.probe_nonce));
    peer.push = to_reach(cma::try_write(place.pid, place.probe_address, place.probe_nonce));
  }
  peer.probed = true;
  links_.plan_again(peer);
}

void PeerAccess::probe_if_possible(Peer& peer) noexcept try { probe(peer); } catch (const std::bad_alloc&) {
  return;  // the next message asks again
}

/// One rank of a process at a time is at work, so nobody writes there meanwhile.
Result<> PeerAccess::copy_beside(void* to, const void* from, std::uint64_t bytes) noexcept {
  std::memcpy(to, from, bytes);
  return {};
}

Result<> PeerAccess::read(Peer& peer, const wire::SendOffer& offer, const Payload& to, std::uint64_t bytes) {
  if (peer.beside) {
    const auto* const from =
        reinterpret_cast<const std::byte*>(offer.address);  // NOLINT(performance-no-int-to-ptr)
    if (!to.type)
      std::memcpy(to.data, from, bytes);
    else
      Cursor(*to.type, to.data, to.count).unpack({from, bytes});
    return {};
  }
  if (!to.type) return read(peer, offer.address, to.data, bytes);
  Cursor cursor(*to.type, to.data, to.count);
  std::array<Segment, 256> segments;
  std::array<iovec, 256> pieces;
  std::uint64_t moved = 0;
  while (moved < bytes) {
    const std::size_t count = cursor.segments(segments, bytes - moved);
    std::uint64_t next = moved;
    for (std::size_t i = 0; i < count; ++i) {
      pieces[i] = {segments[i].data, segments[i].bytes};
      next += segments[i].bytes;
    }
    ISTHMUS_TRY(after_copy(peer, cma::read(peer.pid, offer.address + moved, {pieces.data(), count})));
    moved = next;
  }
  return {};
}

Result<> PeerAccess::after_copy(Peer& peer, Result<> copied) {
  if (!copied && copied.error().error_class() == ErrorClass::proc_aborted) note_gone(peer);
  if (!copied && copied.error().error_class() == ErrorClass::other) peer.probed = false;
  return copied;
}

Result<> PeerAccess::check_process(Peer& peer) {
  const std::uint64_t now = ticks();
  ISTHMUS_TRY(after_copy(peer, cma::check_process(peer.pid)));
  peer.pid_checked = now;
  return {};
}

void PeerAccess::note_gone(Peer& peer) {
  if (!std::exchange(peer.gone, true)) losses_.wait_for_launcher();
}

}  // namespace isthmus
