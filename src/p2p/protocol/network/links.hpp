#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "channel/network/movable_port.hpp"
#include "channel/network/port.hpp"
#include "p2p/link/links.hpp"
#include "wire/network.hpp"

namespace isthmus {

/// The port of an engine, and which peers it is connected to. Guarded by the engine's lock.
class NetworkLinks {
 public:
  explicit NetworkLinks(Links& links) noexcept : links_(links) {}
  NetworkLinks(const NetworkLinks&) = delete;
  NetworkLinks& operator=(const NetworkLinks&) = delete;

  /// Opens the port, whose events go to `events`, and publishes its address. Collective over the job where
  /// there is a launcher.
  Result<> open(network::Events& events);
  /// Null before `open` and after `close`.
  [[nodiscard]] network::Port* port() const noexcept { return port_.get(); }
  /// Lets the port know a peer's address, and sets the peer's plan, unless that has been done.
  Result<> connect(Peer& peer);
  /// Sends a header without bytes. Where it does not arrive, the peer hears of the loss.
  Result<network::Port::Progress> send(PeerId peer, const wire::NetworkHeader& header,
                                       std::span<const std::byte> bytes, network::Token token) {
    return port_->send(peer, std::as_bytes(std::span(&header, 1)), bytes, token);
  }
  /// Lets go of what a peer has offered. This process may never have sent anything there; where it cannot,
  /// the sender hears of the loss.
  void decline(Peer& peer, network::OfferId offer);
  void close() noexcept {
    movable_ = nullptr;
    port_.reset();
  }
  /// The port, where it goes with its rank to other hosts; else null.
  [[nodiscard]] network::MovablePort* movable() const noexcept { return movable_; }

 private:
  Result<> publish();
  [[nodiscard]] Result<std::vector<std::byte>> address_of(const Peer& peer) const;

  Links& links_;
  std::unique_ptr<network::Port> port_;
  network::MovablePort* movable_ = nullptr;
};

}  // namespace isthmus
