#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "channel/network/port.hpp"
#include "p2p/message.hpp"
#include "p2p/peer.hpp"
#include "p2p/port_waker.hpp"
#include "route/plan.hpp"
#include "wire/network.hpp"

namespace isthmus {

class Engine;
class NetworkChunks;
struct GpuPart;

/// A message whose bytes are at its sender on another host.
struct RemoteOffer {
  std::uint64_t bytes;
  network::OfferId id;
  wire::Cookie sender;
};

/// The part of an engine that carries messages to and from processes of other hosts: envelopes for the
/// engine's matcher over a `network::Port`. Guarded by the engine's lock.
class Remote final : private network::Events {
 public:
  /// Opens the port and publishes its address. Collective over the job.
  static Result<std::unique_ptr<Remote>> open(Engine& engine);
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;
  ~Remote();

  [[nodiscard]] std::string describe(PeerId peer) const { return port_->describe(peer); }

  /// As `Engine::start_send`.
  Request* start_send(Peer& peer, const Target& target, const Payload& payload, SendMode mode);
  /// Sends a message that lies in GPU memory without gaps: as it lies, or chunk by chunk. Nothing where it is
  /// too short for that, or the peer cannot be reached; `part` is taken only otherwise.
  Request* try_send_gpu(Peer& peer, const Target& target, std::unique_ptr<GpuPart>& part, SendMode mode);
  /// Completes `receive` with a message in chunks, sooner or later.
  void fetch_chunks(Peer& peer, Request& receive, int source, int tag, std::uint64_t bytes,
                    wire::Cookie sender);
  /// Lets go of a message in chunks that nobody will receive.
  void decline_chunks(Peer& peer, wire::Cookie sender);
  /// Whether a GPU copies for a message to or from another host.
  [[nodiscard]] bool is_copying() const noexcept;
  /// Tells `peer` that its synchronous message has been matched.
  void acknowledge(Peer& peer, wire::Cookie sender);
  /// Completes `receive` with the bytes of an offer, sooner or later.
  void fetch(Peer& peer, Request& receive, int source, int tag, const RemoteOffer& offer);
  /// Lets go of a message of `peer` that nobody will receive; its sender hears of it.
  void decline(Peer& peer, network::OfferId offer);

  // --- gpu_network.cpp

  /// Whether the network may be handed GPU memory; why not.
  [[nodiscard]] Reach gpu_reach() const;
  /// The matched `receive` of a peer on this host, whose envelope went through shared memory, waits for what
  /// the sender hands to the network.
  void expect_loop(Peer& peer, Request& receive);
  /// Hands a send in GPU memory to the network, for that `receive` of a peer on this host.
  Result<> send_loop(Peer& peer, Request& send, wire::Cookie receive, std::uint64_t bytes);

  unsigned poll();
  /// From now on the rank's futex is woken when there is something to `poll`, once. False where there is
  /// something already.
  bool arm();
  /// Whether everything that was sent has left.
  [[nodiscard]] bool idle() const { return !port_ || port_->idle(); }
  /// A barrier of all processes of the job. From then on nothing is said of those that leave.
  void meet_all();
  /// Lets go of the network; nothing may be sent or received any more.
  void close();

 private:
  friend class NetworkChunks;

  explicit Remote(Engine& engine);

  void arrived(PeerId from, std::span<const std::byte> header, std::span<const std::byte> bytes) override;
  void offered(PeerId from, std::span<const std::byte> header, std::uint64_t bytes,
               network::OfferId offer) override;
  void sent(network::Token token, const Error* error) override;
  void fetched(network::Token token, const Error* error) override;
  void lost(PeerId id, const Error& why) override;

  /// Lets the job's processes know this port's address. Collective where there is a launcher.
  Result<> publish();
  [[nodiscard]] Result<std::vector<std::byte>> address_of(const Peer& peer) const;
  Result<> connect(Peer& peer);
  void barrier();
  void deliver(Peer& peer, const wire::NetworkHeader& header, std::span<const std::byte> bytes);
  void acknowledged(const Peer& peer, wire::Cookie sender);
  void end_part(Request& send);
  Request* send_direct(Peer& peer, const Target& target, std::unique_ptr<GpuPart> part, SendMode mode);
  bool try_fetch_direct(Request& receive, network::OfferId offer);
  void loop_offered(Peer& peer, const wire::NetworkHeader& header, std::uint64_t bytes,
                    network::OfferId offer);

  Engine& engine_;
  std::unique_ptr<network::Port> port_;
  std::unique_ptr<PortWaker> waker_;  ///< made when it is needed; goes before the port
  bool ending_ = false;
  std::unique_ptr<NetworkChunks> chunks_;
  std::vector<Request*> unacknowledged_;  ///< synchronous sends whose match has not been heard of
};

}  // namespace isthmus
