#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "datatype/cursor.hpp"
#include "p2p/message/gpu_part.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/queue.hpp"
#include "route/gpu/transfer_mark.hpp"
#include "route/live_plans.hpp"
#include "route/plan.hpp"
#include "wire/ring.hpp"

namespace isthmus {

class MatchContext;
class Peer;

/// Of a receive whose message is marked (`BatchReports`).
struct BatchMark {
  std::uint16_t number = 0;  ///< as in its cell; 0: it is not
  std::uint64_t began = 0;   ///< ticks in MPI
};

/// How a send is to go whose length leaves a choice.
enum class Eagerness : std::uint8_t { by_limit, eager, rendezvous };

/// A pending operation. Requests live in their engine's `RequestPool` and never move; all fields are guarded
/// by the engine's lock. `complete` is final: once set, `status` and `error` no longer change.
class Request {
 public:
  enum class Kind : std::uint8_t {
    none,
    send,
    receive,
    collective,  ///< one that had ended well when its call returned
    generalized,
    persistent,
  };
  /// How the bytes of a rendezvous go.
  enum class Transfer : std::uint8_t {
    none,     ///< not settled, or in one go
    stream,   ///< in fragments: send: in `Peer::streaming`; receive: fragments are welcome
    split,    ///< by both sides, in the engine's list of such
    copy,     ///< by a GPU of this process
    network,  ///< from or to GPU memory that the network has been handed
    chunks,   ///< a chunk at a time over the network
    push,     ///< receive: by a GPU of the sender's
    staged,   ///< a chunk at a time through memory that both share
  };

  // The hot part: what posting, matching and waiting touch.
  Kind kind = Kind::none;
  bool complete = false;
  bool cancelled = false;
  bool matched = false;      ///< receive: an envelope has been assigned; it can no longer be cancelled
  bool synchronous = false;  ///< send: completes when matched
  bool unsent = false;       ///< send: its envelope waits for room in the ring
  bool released =
      false;  ///< send: marked for cancellation when it was matched: ends without its peer where it can
  bool orphan = false;  ///< freed by its owner (MPI_Request_free): goes back to the pool at completion
  /// Of a payload in memory of the host, as it was when the request began. Nobody looks again: pages move.
  MemoryKind memory = MemoryKind::pageable;
  std::uint32_t index = 0;  ///< in the pool
  std::uint32_t generation = 0;
  int source = 0;   ///< the sender, as its envelope names it; a receive may want any
  int tag = 0;      ///< of the envelope; a receive may want any
  Payload payload;  ///< of a receive into GPU memory a packed one of as many bytes: see `cpu_destination`
  Status status;
  MatchContext* context = nullptr;
  Link<Request> queued;     ///< in the one queue that holds it
  std::uint64_t order = 0;  ///< receive: age among posted receives of its context

  /// Send: decided when it was started. Written by who makes a send.
  Eagerness eagerness = Eagerness::by_limit;
  // The part that only rendezvous and waiting sends use.
  Peer* peer = nullptr;
  Transfer transfer = Transfer::none;
  /// Send over the network: how much of it has not happened yet (`NetworkSends`). 0 of all others. Beside
  /// `transfer`, so that one store resets both.
  std::uint8_t parts_left = 0;
  ContextId context_id = 0;
  std::uint64_t moved = 0;           ///< bytes carried so far
  std::uint64_t limit = 0;           ///< bytes to carry: the smaller of both sides' sizes
  wire::Share* share = nullptr;      ///< of a copy by both sides
  std::uint32_t chunk = 0;           ///< its chunk size
  bool exhausted = false;            ///< no chunk of it is left for this side
  bool is_timed = false;             ///< receive: `WayTimes` knows it to be under way
  wire::Cookie peer_cookie = 0;      ///< of the peer's request
  std::uint64_t remote_address = 0;  ///< of a copy by both sides: the payload's at the peer
  TransferMark mark;                 ///< of a receive, for the plans that measure themselves
  GpuTransferMark gpu_mark;          ///< the same of one in GPU memory, or that comes from there
  /// Send: the mark of its cell is `told.number`. Receive: written when it is matched with a rendezvous, or
  /// with the first of several pieces.
  BatchMark told;
  std::optional<Cursor> cursor;  ///< position in a payload that is not contiguous
  /// Packed bytes of the library's own: what a send leaves from, or what is to be unpacked into a receive.
  std::unique_ptr<std::byte[]> staging;
  std::unique_ptr<GpuPart> gpu;  ///< of a payload in GPU memory
  std::optional<Protocol> way;   ///< of a receive, where the bytes did not come with the envelope
  Ref<const Datatype> type;      ///< keeps the payload's datatype alive
  /// For the layer above: the communicator, which it keeps alive, or what a compound operation consists of.
  Ref<RefCounted> owner;

  /// An envelope that announces `bytes` has been assigned to this receive: what follows from it. `from`: null
  /// where the bytes need no peer any more.
  void assign(Peer* from, int its_source, int its_tag, std::uint64_t bytes) noexcept {
    matched = true;
    peer = from;
    moved = 0;
    limit = std::min(bytes, payload.bytes);
    status = {.source = its_source, .tag = its_tag, .bytes = limit};
    if (bytes > payload.bytes) status.error = static_cast<int>(ErrorClass::truncate);
  }

  /// Where a processor is to put what arrives for this receive: a payload in GPU memory has a stand-in, which
  /// is made when something first comes that way. To have one of 64 MiB ready takes 7 us (mapped and
  /// unmapped, never touched), 64 of 1 MiB 148 us.
  [[nodiscard]] const Payload& cpu_destination() {
    if (gpu && !gpu->stand_in) [[unlikely]] {
      gpu->stand_in = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
      payload.data = gpu->stand_in.get();
    }
    return payload;
  }

  /// What wait and test return for it: success, or truncation and the like.
  [[nodiscard]] int error() const noexcept { return status.error; }
  [[nodiscard]] wire::Cookie cookie() const noexcept { return (std::uint64_t{generation} << 32) | index; }
};

}  // namespace isthmus
