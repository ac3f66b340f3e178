#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "channel/network/port.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/active/unexpected.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/loss_watch.hpp"
#include "p2p/link/peer.hpp"
#include "p2p/link/peer_access.hpp"
#include "p2p/link/port_waker.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/message/message.hpp"
#include "p2p/progress/poll_list.hpp"
#include "p2p/protocol/gpu/access.hpp"
#include "p2p/protocol/network/chunks.hpp"
#include "p2p/protocol/network/links.hpp"
#include "p2p/protocol/network/sends.hpp"
#include "wire/network.hpp"

namespace isthmus {

struct GpuPart;

/// The part of an engine that carries messages to and from processes of other hosts: envelopes for the
/// engine's matcher over a `network::Port`. Guarded by the engine's lock.
class NetworkPeers final : public Polled, public NetworkSenders, public GpuNetwork, private network::Events {
 public:
  /// What it is made of besides.
  struct Surroundings {
    Links& links;
    Completion& completion;
    Matcher& matcher;
    UnexpectedMessages& unexpected;
    GpuAccess& gpu;
    PeerAccess& access;
    LossWatch::Listener& losses;
  };
  static const Probe probe_of_eager, probe_of_rendezvous;
  /// Opens the port and publishes its address. Collective over the job.
  static Result<std::unique_ptr<NetworkPeers>> open(const Surroundings& around);
  NetworkPeers(const NetworkPeers&) = delete;
  NetworkPeers& operator=(const NetworkPeers&) = delete;
  ~NetworkPeers() override;

  [[nodiscard]] std::string describe(PeerId peer) const { return network_.port()->describe(peer); }

  /// As `Engine::start_send`.
  Request* start_send(Peer& peer, const Target& target, const Payload& payload, SendMode mode);
  /// As `Engine::cancel`, of a pending send to another host. One that goes in chunks is not cancelled.
  void cancel(Request& send);
  /// Completes `receive` with the bytes of an offer, sooner or later.
  void fetch(Peer& peer, Request& receive, int source, int tag, const NetworkOffer& offer);
  /// Completes `receive` with a message in chunks, sooner or later.
  void fetch_chunks(Peer& peer, Request& receive, int source, int tag, std::uint64_t bytes,
                    wire::Cookie sender) {
    chunks_->match(peer, receive, source, tag, bytes, sender);
  }
  /// Ends what is under way with a peer that has been lost.
  void forget(Peer& peer);

  // NetworkSenders
  void prepare_answer(Peer& peer) override;
  void acknowledge(Peer& peer, wire::Cookie sender) override;
  void decline(Peer& peer, network::OfferId offer) override { network_.decline(peer, offer); }
  void decline_chunks(Peer& peer, wire::Cookie sender) override { chunks_->decline(peer, sender); }
  void give_up(PeerId id, const Error& why) override { lose(id, why); }

  // GpuNetwork: gpu_network.cpp
  Request* try_send_gpu(Peer& peer, const Target& target, std::unique_ptr<GpuPart>& part,
                        SendMode mode) override;
  [[nodiscard]] Reach gpu_reach() const override;
  void expect_loop(Peer& peer, Request& receive) override;
  Result<> send_loop(Peer& peer, Request& send, wire::Cookie receive, std::uint64_t bytes) override;

  unsigned poll() override;
  /// Whether a GPU copies for a message to or from another host.
  [[nodiscard]] bool wakes_nobody() const noexcept override { return chunks_ && chunks_->is_copying(); }
  bool arm() override;
  /// Whether everything that was sent has left.
  [[nodiscard]] bool idle() const { return !network_.port() || network_.port()->idle(); }
  /// All has been sent, and has left: tells those that this process has had to do with. Who says so is no
  /// loss to them when it ends. leaving.cpp
  void leave();
  /// Whether all of them have answered, have left themselves, or are lost.
  [[nodiscard]] bool is_seen_off() const noexcept { return unanswered_.empty(); }
  /// From now on nothing is said of processes that leave.
  void expect_departures() noexcept { ending_ = true; }
  /// Lets go of the network; nothing may be sent or received any more.
  void close();

  // Where ranks go to other hosts: moving.cpp

  /// What has been sent and what has been taken in so far, as `network::MovablePort` counts it.
  [[nodiscard]] network::MovablePort::Counts counts() const noexcept { return network_.movable()->counts(); }
  /// Nothing is under way, and ranks are about to move: the lines to all peers are opened anew.
  void close_lines() noexcept { network_.movable()->close_lines(); }
  /// A send that its peer has, and that waits to be matched there, is heard of by the network from now on, or
  /// not any more.
  void take_over(Request& send);
  void hand_over(Request& send) noexcept;

 private:
  explicit NetworkPeers(const Surroundings& around);

  void arrived(PeerId from, std::span<const std::byte> header, std::span<const std::byte> bytes) override;
  void offered(PeerId from, std::span<const std::byte> header, std::uint64_t bytes,
               network::OfferId offer) override;
  void sent(network::Token token, const Error* error) override;
  void fetched(network::Token token, const Error* error) override;
  void lost(PeerId id, const Error& why) override;
  /// From now on nothing is expected of process `id`: it cannot be reached, or there is no memory for what it
  /// sends.
  void lose(PeerId id, const Error& why);

  void deliver(Peer& peer, const wire::NetworkHeader& header, std::span<const std::byte> bytes);
  void acknowledged(Peer& peer, wire::Cookie sender);
  bool try_arm();
  Request* start(Peer& peer, const Target& target, const Payload& payload, SendMode mode, Request* send);
  void begin_fetch(Peer& peer, Request& receive, const NetworkOffer& offer);
  // cancel.cpp
  UnexpectedMessage* take_out(const Peer& peer, wire::Cookie sender);
  void asked_to_cancel(Peer& peer, wire::Cookie sender);
  void answered_cancel(Peer& peer, wire::Cookie sender, bool is_cancelled);
  // leaving.cpp
  void leaves(Peer& peer);
  // gpu_network.cpp
  Request* send_direct(Peer& peer, const Target& target, std::unique_ptr<GpuPart> part, SendMode mode);
  bool fetch_to_gpu(Peer& peer, Request& receive, const NetworkOffer& offer);
  bool try_fetch_direct(Request& receive, network::OfferId offer);
  void loop_offered(Peer& peer, const wire::NetworkHeader& header, std::uint64_t bytes,
                    network::OfferId offer);

  Links& links_;
  Completion& completion_;
  GpuAccess& gpu_;
  Matcher& matcher_;
  UnexpectedMessages& unexpected_;
  PeerAccess& access_;
  LossWatch::Listener& losses_;
  NetworkLinks network_;
  NetworkSends sends_;
  std::unique_ptr<PortWaker> waker_;  ///< made when it is needed; goes before the port
  bool ending_ = false;
  /// What has come of a process last.
  enum class Heard : std::uint8_t { nothing, messages, that_it_leaves };
  std::vector<Heard> heard_;        ///< by process
  std::vector<PeerId> unanswered_;  ///< have been told that this process leaves
  std::unique_ptr<NetworkChunks> chunks_;
};

}  // namespace isthmus
