#pragma once

#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "p2p/message/gpu_part.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/request.hpp"
#include "route/plan.hpp"

namespace isthmus {

class Peer;

/// What the network does with GPU memory.
class GpuNetwork {
 public:
  /// Sends a message that lies in GPU memory without gaps: as it lies, or chunk by chunk. Null where it is
  /// too short for that, or the peer cannot be reached; `part` is taken only otherwise.
  virtual Request* try_send_gpu(Peer& peer, const Target& target, std::unique_ptr<GpuPart>& part,
                                SendMode mode) = 0;
  /// Whether the network may be handed GPU memory; why not.
  [[nodiscard]] virtual Reach gpu_reach() const = 0;
  /// The matched `receive` of a peer on this host, whose envelope went through shared memory, waits for what
  /// the sender hands to the network.
  virtual void expect_loop(Peer& peer, Request& receive) = 0;
  /// Hands a send in GPU memory to the network, for that `receive` of a peer on this host.
  virtual Result<> send_loop(Peer& peer, Request& send, wire::Cookie receive, std::uint64_t bytes) = 0;

 protected:
  ~GpuNetwork() = default;
};

}  // namespace isthmus
