#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "channel/network/port.hpp"
#include "gpu/copy/engine.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "p2p/gpu_memory/dependent.hpp"
#include "p2p/message/gpu_part.hpp"
#include "p2p/message/request.hpp"
#include "p2p/protocol/gpu/messages.hpp"
#include "p2p/protocol/gpu/network_cut.hpp"
#include "wire/network.hpp"

namespace isthmus {

class Completion;
class GpuAccess;
class Links;
class Matcher;
class NetworkLinks;
class NetworkSends;
class UnexpectedMessages;

/// A message whose bytes are at its sender on another host.
struct NetworkOffer {
  std::uint64_t bytes;
  network::OfferId id;
  wire::Cookie sender;
};

/// Messages from and to GPU memory to and from other hosts, but for the shortest. Of one from GPU memory the
/// envelope goes first; then each chunk is copied to pinned memory and offered as a message of its own, in
/// order, at most `depth` at a time, so that the sender's GPU copies one while the network takes those
/// before. A receiver in GPU memory fetches into pinned memory of its own in the same way, and its GPU copies
/// from there; one in memory of the host fetches to where the bytes belong. Chunks that nobody has matched
/// yet wait at the sender.
///
/// A message from memory of the host is offered as a whole, since its sender does not know where it goes to,
/// and so is one from GPU memory that the network has been handed. A receiver in GPU memory lands it through
/// pinned memory; a long one it has the sender cut, which then offers chunks beside the whole, and the
/// receiver declines the whole when it has them. Guarded by the engine's lock.
class NetworkChunks final : public GpuDependent {
 public:
  /// Chunks under way at each side of a message.
  static constexpr std::size_t depth = 4;

  /// What it is made of besides.
  struct Surroundings {
    Links& links;
    Completion& completion;
    Matcher& matcher;
    UnexpectedMessages& unexpected;
    GpuAccess& gpu;
    NetworkLinks& network;
    NetworkSends& sends;
  };
  explicit NetworkChunks(const Surroundings& around)
      : links_(around.links),
        completion_(around.completion),
        matcher_(around.matcher),
        unexpected_(around.unexpected),
        gpu_(around.gpu),
        network_(around.network),
        sends_(around.sends) {}
  NetworkChunks(const NetworkChunks&) = delete;
  NetworkChunks& operator=(const NetworkChunks&) = delete;
  ~NetworkChunks() override;

  /// Lands a message of the host's where the matched `receive` wants it; false, with nothing done, where it
  /// has to come otherwise. `way`: `network_chunks`, for which its sender has to cut it, or
  /// `network_rendezvous`, as a whole.
  bool try_fetch(Peer& peer, Request& receive, const NetworkOffer& offer, Protocol way);
  /// The receiver of a send from memory of the host wants it in chunks.
  void cut(Peer& peer, wire::Cookie sender);

  /// Sends a message that is too long for its envelope, to a peer that is connected.
  Request* send(Peer& peer, const Target& target, std::unique_ptr<GpuPart> part, SendMode mode);
  /// The envelope has come; `match` gives it a receive.
  void announced(Peer& peer, const wire::NetworkHeader& header);
  void match(Peer& peer, Request& receive, int source, int tag, std::uint64_t bytes, wire::Cookie sender);
  void decline(Peer& peer, wire::Cookie sender);
  /// The sender's GPU has failed: no more chunks come.
  void broken_off(Peer& peer, wire::Cookie sender);
  void offered(Peer& peer, const wire::NetworkHeader& header, std::uint64_t bytes, network::OfferId offer);

  /// Whether an event of the port was of a chunk.
  bool sent(network::Token token, const Error* error);
  bool fetched(network::Token token, const Error* error);
  void lost(const Peer& peer);

  unsigned poll();
  [[nodiscard]] bool is_copying() const noexcept { return copying_ > 0; }
  void release() noexcept override;
  void forget(std::uint64_t /*exporter*/, std::uint64_t /*allocation*/) noexcept override {}

 private:
  using Key = std::pair<PeerId, wire::Cookie>;  ///< sender, and its send
  /// Memory of the host for a chunk: pinned, or plain where that is short.
  struct Slot {
    PinnedBuffer pinned;
    std::unique_ptr<std::byte[]> plain;
    std::span<std::byte> memory;
  };
  /// Whether a message has failed, and why.
  using Failure = std::optional<ErrorClass>;
  struct Copying {
    PendingCopy copy;
    Slot slot;
    std::uint64_t bytes;
  };
  struct Outgoing {
    Peer* peer;
    wire::Cookie send;
    std::uint64_t chunks;
    std::uint64_t bytes;
    bool is_cut = false;              ///< it has been offered as a whole, too
    const std::byte* host = nullptr;  ///< where it lies; null: in GPU memory
    std::uint64_t index = 0;          ///< of the next chunk
    std::uint64_t begun = 0;          ///< bytes whose copies have begun
    std::deque<Copying> copying;      ///< oldest first
    std::size_t under_way = 0;        ///< chunks that the network has
    Failure failed{};
  };
  struct Offer {
    network::OfferId id;
    std::uint64_t offset, bytes;
  };
  struct Incoming {
    Peer* peer;
    std::uint64_t bytes;
    std::uint64_t seen = 0;  ///< bytes offered so far
    std::deque<Offer> waiting;
    std::deque<Copying> copying;
    std::size_t under_way = 0;  ///< chunks that are being fetched
    std::optional<wire::Cookie> receive;
    network::OfferId whole = 0;  ///< of a message that is cut for this receive
    bool declined = false;
    Failure failed{};
  };
  /// What the network has under way, by token.
  struct Operation {
    Key key;
    Slot slot;
    std::uint64_t offset = 0, bytes = 0;
  };
  using Operations = std::unordered_map<std::uint32_t, Operation>;

  [[nodiscard]] std::uint64_t count_for(const Peer& peer, std::uint64_t bytes) const;
  Slot take_slot(cuda::Device device, std::uint64_t bytes);
  network::Token begin_operation(Operation operation);
  Operations::iterator find_operation(network::Token token);
  std::optional<Operation> end_operation(network::Token token);

  void fail(Failure& failed, const Error& why);
  Result<> copy(std::deque<Copying>& copying, Slot slot, const Buffer& near, GpuCopies::Direction direction,
                const CopyPiece& piece);
  [[nodiscard]] static std::uint64_t next_chunk(const Outgoing& out) noexcept;
  static void has_begun(Outgoing& out, std::uint64_t bytes) noexcept;
  bool copy_out(Outgoing& out);
  void offer(Outgoing& out, std::span<const std::byte> chunk, Slot& slot);
  unsigned advance(Outgoing& out);
  unsigned advance(const Key& key, Incoming& in);
  void fetch(const Key& key, Incoming& in, const Offer& offer, Request& receive, std::uint64_t bytes);
  void land(Incoming& in, Operation& operation, Request& receive);
  [[nodiscard]] static bool is_over(const Outgoing& out) noexcept;
  [[nodiscard]] static bool is_over(const Incoming& in) noexcept;
  void finish(const Outgoing& out);
  void finish(const Incoming& in);

  Links& links_;
  Completion& completion_;
  Matcher& matcher_;
  UnexpectedMessages& unexpected_;
  GpuAccess& gpu_;
  NetworkLinks& network_;
  NetworkSends& sends_;
  std::unordered_map<cuda::Device, PinnedPool> pools_;
  std::map<wire::Cookie, Outgoing> outgoing_;
  std::map<Key, Incoming> incoming_;
  Operations operations_;
  std::uint32_t last_operation_ = 0;
  std::size_t copying_ = 0;
  bool registered_ = false;
  bool complained_of_memory_ = false;
  bool complained_ = false;  ///< of a GPU
};

}  // namespace isthmus
