#pragma once

#include <cstddef>
#include <cstdint>

#include "p2p/active/batch_reports.hpp"
#include "p2p/active/cell_handlers.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/active/unexpected.hpp"
#include "p2p/link/links.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/request.hpp"
#include "route/plan.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// Messages whose bytes go with their envelope between ranks of one host: up to `wire::inline_capacity` bytes
/// in its cell, longer ones in the byte ring, in pieces where the receiver can copy out while the sender
/// still copies in. The cell of the shortest is written and read by the `Engine` itself: 8 B pay no call of
/// another object. Guarded by the engine's lock.
class EagerMessages {
 public:
  EagerMessages(Links& links, Completion& completion, Matcher& matcher, UnexpectedMessages& unexpected,
                BatchReports& reports, CellHandlers& handlers)
      : links_(links),
        completion_(completion),
        matcher_(matcher),
        unexpected_(unexpected),
        reports_(reports) {
    links.probes().add(probe_of_inline);
    links.probes().add(probe_of_eager);
    handlers.add<&EagerMessages::arrived>(wire::CellKind::eager, *this);
    handlers.add<&EagerMessages::arrived>(wire::CellKind::eager_over, *this);
    handlers.add<&EagerMessages::more_arrived>(wire::CellKind::eager_more, *this);
    handlers.add<&EagerMessages::placed_arrived>(wire::CellKind::eager_placed, *this);
    handlers.add<&EagerMessages::more_placed_arrived>(wire::CellKind::placed_more, *this);
  }
  EagerMessages(const EagerMessages&) = delete;
  EagerMessages& operator=(const EagerMessages&) = delete;

  static const Probe probe_of_inline, probe_of_eager;

  /// Writes a message to a peer whose ring is open; false, with nothing done, if that has no room.
  /// `synchronous`: the send that is to hear when it has been matched; null for none.
  /// `mark`: of its cell.
  bool emit(Peer& peer, const Target& target, const Payload& payload, const Request* synchronous,
            std::uint16_t mark = 0);
  /// In how many pieces a message goes whose receiver does not sleep.
  [[nodiscard]] static std::uint32_t pieces_of(std::uint64_t bytes) noexcept;
  /// A message in its cell of no source of `context`, which may be one that is to be opened.
  void receive_early(Peer& peer, MatchContext& context, const wire::CellHeader& header,
                     const std::byte* bytes);
  /// Completes or goes on with `receive`, which matches a message that came before it.
  void accept(UnexpectedMessage& message, Request& receive);

 private:
  void arrived(const ArrivedCell& cell);
  void more_arrived(const ArrivedCell& cell);
  void placed_arrived(const ArrivedCell& cell);
  void more_placed_arrived(const ArrivedCell& cell);
  bool emit_pieces(Peer& peer, wire::CellHeader header, const wire::EagerHeader& eager,
                   const Payload& payload);
  static bool emit_placed(Peer& peer, wire::CellHeader header, const wire::EagerHeader& eager,
                          const Payload& payload, std::uint32_t most);
  void abandon_pieces(Peer& peer);
  static void begin_pieces(Peer& peer, Request& receive, int source, int tag, std::uint64_t bytes);
  void note_spent(UnexpectedMessage& message, std::uint64_t began) noexcept;
  void add_piece(Peer& peer, const std::byte* bytes, std::uint32_t size);
  void accept_marked_or_part(UnexpectedMessage& message, Request& receive);
  void deliver_marked(const ArrivedCell& cell, Request& receive);
  void adopt_pieces(UnexpectedMessage& message, Request& receive);

  Links& links_;
  Completion& completion_;
  Matcher& matcher_;
  UnexpectedMessages& unexpected_;
  BatchReports& reports_;
};

}  // namespace isthmus
