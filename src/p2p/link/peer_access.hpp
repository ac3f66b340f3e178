#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "base/ticks.hpp"
#include "channel/cma/cma.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/loss_watch.hpp"
#include "p2p/link/peer.hpp"
#include "p2p/link/peer_memory.hpp"

namespace isthmus {

/// Copies from and to the memory of peers: by the kernel, and whether that works is tried once with each
/// peer; of a peer that is a rank of this process, without the kernel. Serves all memory that can be offered.
/// Guarded by the engine's lock.
class PeerAccess final : public PeerMemory {
 public:
  PeerAccess(Links& links, LossWatch& losses, PeerMemories& memories) : links_(links), losses_(losses) {
    memories.add(*this);
    links.probes().add(probe_of_pull);
    links.probes().add(probe_of_beside);
  }
  static const Probe probe_of_pull, probe_of_beside;

  /// Lets peers try whether they reach this process.
  Result<> publish();
  /// Whether `probe` finds anything: the peer has come far enough in MPI_Init.
  [[nodiscard]] bool can_probe(const Peer& peer) const noexcept;
  /// Finds `Peer::pull` and `Peer::push`, and makes the plan, unless that has been tried.
  void probe(Peer& peer) {
    if (!peer.probed) try_it(peer);
  }
  /// The same where a message must go on: without memory it takes a way that needs no reach, and the next one
  /// tries again.
  void probe_if_possible(Peer& peer) noexcept;
  [[nodiscard]] bool carries(Protocol protocol) const noexcept override {
    return protocol == Protocol::pull || protocol == Protocol::beside;
  }
  void try_reach(Peer& peer) noexcept override { probe_if_possible(peer); }
  [[nodiscard]] bool reaches([[maybe_unused]] Peer& peer, const wire::SendOffer& offer,
                             [[maybe_unused]] std::uint64_t bytes) noexcept override {
    return offer.address != 0;
  }
  [[nodiscard]] Result<> read(Peer& peer, const wire::SendOffer& offer, const Payload& to,
                              std::uint64_t bytes) override;
  /// Reads what lies at `address` of a peer; only where `Peer::pull` holds. `proc_aborted`: the process is no
  /// more.
  Result<> read(Peer& peer, std::uint64_t address, void* to, std::uint64_t bytes) {
    if (peer.beside) [[unlikely]]
      return copy_beside(to, reinterpret_cast<const void*>(address), bytes);
    return after_copy(peer, cma::read(peer.pid, address, to, bytes));
  }
  /// The same for writing, where `Peer::push` holds.
  Result<> write(Peer& peer, std::uint64_t address, const void* from, std::uint64_t bytes) {
    if (peer.beside) [[unlikely]]
      return copy_beside(reinterpret_cast<void*>(address), from, bytes);
    if (ticks() - peer.pid_checked >= ticks_between_checks) [[unlikely]]
      ISTHMUS_TRY(check_process(peer));
    return after_copy(peer, cma::write(peer.pid, address, from, bytes));
  }
  /// The process of a peer on this host is no more.
  void note_gone(Peer& peer);

 private:
  /// In ticks: 0.3 to 0.7 ms on x86, up to 40 ms elsewhere. The kernel gives an id to somebody else when it
  /// has gone through all others, 32768 and more, and a thread takes it 5 us at least. To ask before each
  /// copy made 32 KiB, of which both sides copy a half, 20 % slower (0.6 us of 3.0; Intel, 32 cores).
  static constexpr std::uint64_t ticks_between_checks = std::uint64_t{1} << 20U;

  void try_it(Peer& peer);
  /// That its id names a process still.
  Result<> check_process(Peer& peer);
  static Result<> copy_beside(void* to, const void* from, std::uint64_t bytes) noexcept;
  /// A copy that the kernel has refused is a reason to try the pair anew, before the next message.
  Result<> after_copy(Peer& peer, Result<> copied);

  Links& links_;
  LossWatch& losses_;
  cma::Probe probe_{};
};

}  // namespace isthmus
