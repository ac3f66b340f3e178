#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "channel/shm/ring_reader.hpp"
#include "channel/shm/ring_writer.hpp"
#include "channel/shm/shared_place.hpp"
#include "p2p/message/queue.hpp"
#include "p2p/message/request.hpp"
#include "route/plan.hpp"
#include "route/workload.hpp"

namespace isthmus {

struct UnexpectedMessage;

/// Messages and bytes that went to or came from a peer, by protocol.
struct Traffic {
  struct Count {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
  };
  std::array<Count, protocol_count> sent{};
  std::array<Count, protocol_count> received{};
  /// For how long what was received was under way (`WayTimes`), in ticks; nobody looks at the time unless
  /// `isthmus explain` does.
  std::array<std::uint64_t, protocol_count> ticks{};

  void add_sent(Protocol protocol, std::uint64_t bytes) noexcept { add(sent, protocol, bytes); }
  void add_received(Protocol protocol, std::uint64_t bytes) noexcept { add(received, protocol, bytes); }
  /// An empty message that is none of the program's.
  void forget_received(Protocol protocol) noexcept {
    --received[static_cast<std::size_t>(protocol)].messages;
  }

 private:
  static void add(std::array<Count, protocol_count>& counts, Protocol protocol,
                  std::uint64_t bytes) noexcept {
    Count& count = counts[static_cast<std::size_t>(protocol)];
    ++count.messages;
    count.bytes += bytes;
  }
};

/// A cell without user data that waits for room in the ring.
struct ControlCell {
  wire::CellHeader header;
  std::array<std::byte, wire::inline_capacity> payload;
};

/// What this process knows of another rank, and what is under way towards it. Part of the engine.
class Peer {
 public:
  explicit Peer(PeerId peer) : id(peer) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  static constexpr std::uint32_t no_slot = ~std::uint32_t{0};

  const PeerId id;
  std::uint32_t slot = no_slot;  ///< in the region; none where the peer is on another host
  [[nodiscard]] bool is_local() const noexcept { return slot != no_slot; }
  RingWriter out;  ///< open from the first message to the peer on

  // What each send looks at, side by side.
  Queue<Request, &Request::queued> waiting;  ///< sends whose envelope has not left, in order
  /// Of sends to the peer: where the steps of its plan end that go with the envelope. Written with the plan.
  std::uint32_t eager_limit = 0;
  std::uint64_t last_bytes = 0;  ///< of the message last written to the byte ring: the guess for the next one
  WorkloadTrace workload;        ///< of the sends to the peer
  SharedPlace place;             ///< the pair's, once the ring that it lies behind is open

  RingReader in;            ///< open once the peer has announced its ring
  std::uint32_t round = 0;  ///< cells that are read from it at a time; 0 while it is held back

  std::list<ControlCell> control;              ///< first to go when there is room
  std::list<ControlCell> spare_control;        ///< what `control` takes its cells from
  Queue<Request, &Request::queued> streaming;  ///< sends whose fragments are leaving
  bool listed = false;                         ///< in the engine's list of peers with something to send

  /// The eager message of which further pieces are to come: where they go. Both null: they are dropped.
  Request* incoming_receive = nullptr;
  UnexpectedMessage* incoming_message = nullptr;
  std::uint64_t incoming_left = 0;

  // Of its marked messages (`BatchReports`).
  wire::BatchReport told;       ///< what it has been told last
  std::uint64_t told_from = 0;  ///< ticks in MPI, when the first of these was matched
  std::uint64_t told_sum = 0;   ///< ticks that each of them took
  std::uint64_t told_at = 0;    ///< ticks in MPI, when one was there last

  std::uint64_t unexpected = 0;  ///< memory of the peer's messages that no receive has matched
  bool held = false;             ///< it has sent too many; see p2p/active/unexpected.cpp

  /// The process that the probe reached; 0 until then. Kept, because what the region says may change.
  std::int32_t pid = 0;
  std::uint64_t pid_checked = 0;  ///< `ticks` when it was seen last that `pid` names a process
  bool probed = false;
  bool beside = false;  ///< a rank of this process: its memory is in reach as it is
  bool gone = false;    ///< it has been found that there is no such process any more
  Reach pull = std::unexpected(Reason{"not tried yet"});
  Reach push = std::unexpected(Reason{"not tried yet"});
  /// The plan by the memory that a sender offers from: what was made of it the last time that what a probe
  /// sees has changed (`Links::plan_again`). How long a message goes with its envelope is the sender's to
  /// choose, and stands here for what this process sends; the rest is for what comes from the peer.
  [[nodiscard]] const Plan& plan(SendersMemory memory = SendersMemory::any) const noexcept {
    return plans[static_cast<std::size_t>(memory)];
  }
  std::array<Plan, senders_memories> plans{};

  // For peers on other hosts.
  bool connected = false;           ///< the port knows its address
  std::uint32_t network_limit = 0;  ///< then: of what the network sends with the envelope
  bool lost = false;                ///< it cannot be reached any more

  bool gpu_many = false;    ///< its last message in GPU memory was one of several under way
  bool gpu_failed = false;  ///< that it could not copy a message in GPU memory has been reported
  std::string gpu_reason;   ///< why messages in GPU memory go by way of the host's; empty while none did
  Traffic traffic;
  bool reported = false;  ///< a malformed cell has been reported

  [[nodiscard]] bool has_to_send() const noexcept {
    return !control.empty() || !waiting.empty() || !streaming.empty();
  }
};

/// Counts a message that `receive` takes by another way than with its envelope, and keeps the way.
inline void count_received(Peer& peer, Request& receive, Protocol way, std::uint64_t bytes) noexcept {
  peer.traffic.add_received(way, bytes);
  receive.way = way;
}

}  // namespace isthmus
