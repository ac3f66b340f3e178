#pragma once

#include "p2p/active/completion.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/progress/wait_telling.hpp"

namespace isthmus {

/// What a rank says of a wait that has become long: all that it knows of messages.
class MessageWitness final : public WaitTelling::Witness {
 public:
  MessageWitness(Matcher& matcher, Completion& completion) noexcept
      : matcher_(matcher), completion_(completion) {}
  MessageWitness(const MessageWitness&) = delete;
  MessageWitness& operator=(const MessageWitness&) = delete;

  /// The messages that are not complete, and those that have come and that nobody has asked for.
  void say_wait(wire::WaitReport& report, WaitItems& items) noexcept override;

 private:
  Matcher& matcher_;
  Completion& completion_;
};

}  // namespace isthmus
