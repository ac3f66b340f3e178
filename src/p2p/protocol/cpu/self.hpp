#pragma once

#include "p2p/active/completion.hpp"
#include "p2p/active/unexpected.hpp"
#include "p2p/link/links.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/request.hpp"
#include "route/plan.hpp"

namespace isthmus {

/// Messages of a rank to itself, in memory that a processor can read: matched on the spot, one copy. Guarded
/// by the engine's lock.
class SelfMessages {
 public:
  SelfMessages(Links& links, Completion& completion, Matcher& matcher, UnexpectedMessages& unexpected)
      : links_(links), completion_(completion), matcher_(matcher), unexpected_(unexpected) {
    links.probes().add(probe);
  }
  SelfMessages(const SelfMessages&) = delete;
  SelfMessages& operator=(const SelfMessages&) = delete;

  static const Probe probe;

  /// As `Engine::start_send`. What comes before its receive is kept up to the length to which it would travel
  /// with its envelope; a longer one stays where it is, and its send waits.
  Request* send(const Target& target, const Payload& payload, SendMode mode);
  /// Ends the send of a message that waited for `receive`, and that.
  void deliver(Request& receive, UnexpectedMessage& message);
  /// Takes back a send that waits; false where it has been matched.
  bool take_back(Request& send);

 private:
  Links& links_;
  Completion& completion_;
  Matcher& matcher_;
  UnexpectedMessages& unexpected_;
};

}  // namespace isthmus
