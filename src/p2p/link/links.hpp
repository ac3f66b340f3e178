#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "launch/job.hpp"
#include "p2p/link/peer.hpp"
#include "p2p/message/message.hpp"
#include "route/live_plans.hpp"
#include "route/workload.hpp"
#include "wire/region.hpp"

namespace isthmus {

/// The table of an engine's peers, and what goes to them without a request: rings are opened, answers queued,
/// doorbells rung. It knows neither messages nor requests. Guarded by the engine's lock; `wake` and `notify`
/// only look at shared memory.
class Links {
 public:
  /// The job must outlive it.
  Links(const launch::Job& job, const Settings& settings);
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  [[nodiscard]] const launch::Job& job() const noexcept { return job_; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  [[nodiscard]] const wire::RegionView& region() const noexcept { return region_; }
  [[nodiscard]] PeerId rank() const noexcept { return rank_; }
  /// Whether the peer is in this process, so that its addresses are this rank's too.
  [[nodiscard]] bool shares_process(const Peer& peer) const noexcept {
    return job_.in_process || peer.beside;
  }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  /// Whether ranks of this job may sleep, so that who writes to shared memory must `notify`.
  [[nodiscard]] bool peers_sleep() const noexcept { return sleeps_; }
  [[nodiscard]] bool peers_nap() const noexcept { return naps_; }
  /// With `peers_nap`: more ranks than cores in this virtual machine.
  [[nodiscard]] bool shares_cores() const noexcept { return shares_cores_; }
  /// Whether the process in that slot of the region is one of this kernel.
  [[nodiscard]] bool same_machine(std::uint32_t slot) const noexcept {
    return region_.block(slot).place.boot == region_.block(slot_).place.boot;
  }
  /// Of a peer of this region.
  [[nodiscard]] LivePlans::Nearness nearness(const Peer& peer) const noexcept {
    return region_.block(peer.slot).place.package == region_.block(slot_).place.package
               ? LivePlans::Nearness::near
               : LivePlans::Nearness::far;
  }

  // --- the table

  Peer& peer(PeerId id) {
    Peer* found = peers_[id].get();
    return found ? *found : make_peer(id);
  }
  /// Null where nobody has asked for it yet.
  [[nodiscard]] Peer* find(PeerId id) const noexcept { return peers_[id].get(); }
  [[nodiscard]] bool has_lost(PeerId id) const noexcept { return peers_[id] && peers_[id]->lost; }
  /// The peer may be in another process than before, or this rank. Whether it is known from now on whether it
  /// is in this one, and its memory is to be tried anew.
  bool renew(Peer& peer) const noexcept;
  /// The same where ranks go to other hosts: who shares the region may be another than before.
  bool relate(Peer& peer) const;
  /// The rings with a peer begin anew, whoever comes to their slots: both are at rest.
  void clear_rings(const Peer& peer) const noexcept;
  /// Opens the ring to a peer; false where the peer is lost or the region has no room for its ring.
  bool connect(Peer& peer);
  /// Of messages to a peer of this region, where its workload is latency.
  [[nodiscard]] std::uint32_t eager_limit() const noexcept { return eager_limit_; }
  /// Counts a send of more bytes than an envelope takes along; the peer's plan changes with its workload.
  void trace_send(Peer& peer, Start start) const noexcept {
    if (peer.workload.started(start)) plan_again(peer);
  }
  /// What protocols say of pairs; each has entered its own before the first peer is asked for.
  [[nodiscard]] Probes& probes() noexcept { return probes_; }
  /// All that probes look at, of a peer as it is known now.
  [[nodiscard]] PairFacts facts_of(const Peer& peer, SendersMemory memory) const noexcept;
  /// To be called when what probes look at has changed: makes the peer's plans. Needs no memory.
  void plan_again(Peer& peer) const noexcept;
  /// Reports, once for each peer, what a peer should not have written.
  void malformed(Peer& peer, const std::string& what) const;
  /// Keeps the first reason why GPU memory goes by way of the host between here and `peer`; a setback is
  /// warned of. Without memory for that nothing is kept.
  void note_gpu_reason(Peer& peer, const Error& why, bool is_setback) const noexcept;

  // --- writing

  /// After a cell has been published to a peer.
  void after_publish(Peer& peer) noexcept {
    if (sleeps_) ring_doorbell(peer);
  }
  /// A message of `bytes` has been written to the peer's byte ring.
  void wrote_piece(Peer& peer, std::uint64_t bytes) noexcept {
    peer.last_bytes = bytes;
    last_out_ = &peer;
  }
  /// What to do with the first idle moment of a wait.
  void prepare_next_send() noexcept {
    if (!last_out_) return;
    last_out_->out.fetch_next(last_out_->last_bytes);
    last_out_ = nullptr;
  }
  /// Writes a cell without user data, now or when there is room. Its memory may be taken before, by
  /// `prepare_answer`. A peer that cannot be reached hears nothing.
  void send_control(Peer& peer, wire::CellKind kind, const void* payload, std::size_t bytes,
                    std::int32_t tag = 0);
  /// Takes the memory that `schedule` and one `send_control` to `peer` need: so that what a message asks for
  /// cannot fail in the midst, when the message has been matched.
  void prepare_answer(Peer& peer);
  /// Writes control cells that waited for room; how many.
  unsigned push_control(Peer& peer);

  /// Puts a peer on the list of those with something to send.
  void schedule(Peer& peer);
  [[nodiscard]] const std::vector<Peer*>& scheduled() const noexcept { return scheduled_; }
  /// Calls `push` for each on the list, and takes off it who has nothing more; the sum of what it returns.
  template <class Push>
  unsigned push_scheduled(Push push) {
    unsigned happened = 0;
    for (std::size_t i = 0; i < scheduled_.size();) {
      Peer& peer = *scheduled_[i];
      happened += push(peer);
      if (peer.has_to_send() || peer.held) {
        ++i;
      } else {
        peer.listed = false;
        scheduled_[i] = scheduled_.back();
        scheduled_.pop_back();
      }
    }
    return happened;
  }
  /// Both rings with a peer that is no more.
  void disconnect(Peer& peer) noexcept;

  // --- waking

  /// After writing to memory that `id` waits for: wakes it if it sleeps.
  void notify(PeerId id) noexcept {
    if (sleeps_) wake(peer(id).slot);
  }
  /// Wakes the rank in `slot` if it sleeps.
  void wake(std::uint32_t slot) const noexcept;
  /// There may be more of the rank in `slot`, and its doorbell has been taken.
  void ring_again(std::uint32_t slot) noexcept;
  [[nodiscard]] bool has_doorbell() const noexcept;

 private:
  Peer& make_peer(PeerId id);
  [[nodiscard]] std::uint32_t next_ring(const Peer& peer) const noexcept;
  void ring_doorbell(const Peer& peer) noexcept;

  const launch::Job& job_;
  Settings settings_;
  wire::RegionView region_;
  const PeerId rank_;
  const std::uint32_t slot_;
  const std::uint32_t size_;
  const bool sleeps_;
  const bool naps_;
  bool shares_cores_ = false;
  std::uint32_t eager_limit_;            ///< towards a peer whose workload is latency
  std::uint32_t bandwidth_eager_limit_;  ///< and bandwidth
  Probes probes_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> scheduled_;  ///< peers with something to send
  Peer* last_out_ = nullptr;      ///< whose byte ring was written last
};

}  // namespace isthmus
