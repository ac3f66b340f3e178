#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "channel/network/port.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/peer.hpp"
#include "p2p/message/claims.hpp"
#include "p2p/message/matcher.hpp"

namespace isthmus {

/// What is said to processes of other hosts about their messages.
class NetworkSenders {
 public:
  /// Lets go of a message of `peer` that nobody will receive; its sender hears of it.
  virtual void decline(Peer& peer, network::OfferId offer) = 0;
  /// The same for one in chunks.
  virtual void decline_chunks(Peer& peer, wire::Cookie sender) = 0;
  /// From now on the next of these words to `peer` needs no memory here.
  virtual void prepare_answer(Peer& peer) = 0;
  /// Tells `peer` that its synchronous message has been matched.
  virtual void acknowledge(Peer& peer, wire::Cookie sender) = 0;
  /// From now on nothing is taken from process `id`, because of `why`.
  virtual void give_up(PeerId id, const Error& why) = 0;

 protected:
  ~NetworkSenders() = default;
};

/// Who knows of matching spaces in which nothing will be received any more, although they are not open here.
class OverContexts {
 public:
  [[nodiscard]] virtual bool is_over(ContextId id) const noexcept = 0;

 protected:
  ~OverContexts() = default;
};

/// Messages that come before their receives, on the account of their senders, and the limit of the memory
/// that they take (unexpected.cpp says how it holds). Guarded by the engine's lock.
class UnexpectedMessages {
 public:
  UnexpectedMessages(Links& links, Completion& completion, Matcher& matcher, Claims& claims,
                     const OverContexts& over)
      : links_(links),
        completion_(completion),
        matcher_(matcher),
        claims_(claims),
        over_(over),
        flood_looked_at_(links.settings().unexpected_limit) {}
  UnexpectedMessages(const UnexpectedMessages&) = delete;
  UnexpectedMessages& operator=(const UnexpectedMessages&) = delete;

  /// Null where all processes share the region.
  void set_network(NetworkSenders* network) noexcept { network_ = network; }
  /// From now on nothing is received any more but what the library sends to itself.
  void end() noexcept { ending_ = true; }

  // --- what comes

  /// What a message says of itself, wherever it comes from.
  struct Envelope {
    ContextId context;
    int source;
    int tag;
    std::uint64_t bytes;
  };
  /// Whether a message that is of no source of `context` may be for one that is to be opened; else it is
  /// reported.
  bool may_be_early(Peer& peer, const MatchContext& context, int source) const;
  /// What the sender of a message waits to hear of it.
  struct Awaited {
    UnexpectedMessage::Content content;
    wire::Cookie sender = 0;     ///< names the send; not with `remote_offer`
    network::OfferId offer = 0;  ///< with `remote_offer`
    bool is_awaited = true;      ///< false: nothing
    bool is_claimable = false;   ///< the sender may take the message back until it is claimed
  };
  /// Whether a message that matches nothing never will: its context is broken, or was closed after a loss.
  /// Its sender has heard of it then. Without memory nothing has happened.
  bool refuse(Peer& peer, const MatchContext& context, const Envelope& envelope, const Awaited& awaited);
  /// The posted receive that a message matches which its sender may take back, taken out; null if none.
  /// Nothing: it has been taken back.
  std::optional<Request*> match_claimed(Peer& peer, MatchContext& context, int source, int tag,
                                        wire::Cookie sender);
  /// With memory for `bytes`, not kept yet.
  UnexpectedMessage* make(Peer& peer, int source, int tag, std::uint64_t bytes);
  /// Keeps a message that no receive waits for, on its peer's account. `context`: the matcher's for `id`.
  void keep(MatchContext& context, ContextId id, UnexpectedMessage* message);
  /// The same for one whose bytes are elsewhere. `mark`: of its cell.
  void keep_offer(Peer& peer, MatchContext& context, const Envelope& envelope, const Awaited& awaited,
                  UnexpectedMessage::Where where, std::uint16_t mark = 0);

  /// What a receive of that message says to its sender needs no memory then.
  void prepare_answer(const UnexpectedMessage& message);

  // --- where it goes

  /// The oldest message that a receive matches, left in its queue; null if none.
  UnexpectedMessage* find(MatchContext& context, int source, int tag);
  /// The same, taken out and claimed.
  UnexpectedMessage* take(MatchContext& context, int source, int tag);
  /// Tells the sender of a message that waits for it, and has come whole or in pieces, that it has been
  /// matched.
  void acknowledge(const UnexpectedMessage& message);
  /// Of a message whose bytes were elsewhere: they are here from now on, and its sender has heard of it.
  void bring_in(UnexpectedMessage& message, std::unique_ptr<std::byte[]> bytes) noexcept;
  /// Whether the message is this rank's; one that its sender may take back is from now on, unless it has
  /// been.
  [[nodiscard]] bool claim(UnexpectedMessage& message) noexcept {
    if (message.is_claimable && !claims_.claim(message.peer->slot, message.sender)) return false;
    message.is_claimable = false;
    return true;
  }
  /// While all ranks come to rest, nobody is held back, and what comes counts for nobody's limit.
  void come_to_rest(bool rests) noexcept { is_resting_ = rests; }
  /// Gives back a message that has been received or is not wanted.
  void release(UnexpectedMessage* message);
  /// The same for one that nobody will receive.
  void discard(UnexpectedMessage* message);
  /// Takes out a message that a listener has read, and gives it back.
  void consume(MatchContext& context, UnexpectedMessage& message);
  /// Tells the sender of a message, if it waits to hear of it, that nobody will receive it.
  /// Without memory it is to be called again.
  void decline(UnexpectedMessage& message);
  /// Declines those that the matcher has rejected.
  void decline_rejected();

  // --- peers that send too many

  /// Whether the ring of a peer that is held back is read again; asked at each look for progress.
  bool lets_go_on(Peer& peer);
  /// The last probe that has found nothing. It waits for its sources as a receive does.
  struct Probed {
    const MatchContext* context = nullptr;
    int source = any_source;
    bool failed = false;
  };
  Probed probed;

 private:
  void prepare_answer(Peer& peer);
  void answer(Peer& peer, const Awaited& awaited);
  void discard_all();
  void look_at_flood(Peer& peer, const UnexpectedMessage& newest);
  bool may_read(Peer& peer);
  [[nodiscard]] bool awaits(const Peer& peer) const;
  void hold(Peer& peer);
  void fail_waiting(Peer& peer);
  [[nodiscard]] std::uint64_t limit() const noexcept { return links_.settings().unexpected_limit; }
  [[nodiscard]] std::uint64_t most() const noexcept { return 4 * limit(); }

  Links& links_;
  Completion& completion_;
  Matcher& matcher_;
  Claims& claims_;
  const OverContexts& over_;
  NetworkSenders* network_ = nullptr;
  std::uint64_t memory_ = 0;       ///< of messages of peers that no receive has matched
  std::uint64_t flood_looked_at_;  ///< at so much of it who sends too many is looked for again
  struct {
    bool held = false;    ///< that a peer has to wait
    bool failed = false;  ///< that receives have failed
  } warned_;
  bool ending_ = false;
  bool is_resting_ = false;
};

}  // namespace isthmus
