#pragma once

#include <utility>

#include "base/ref.hpp"
#include "comm/communicator.hpp"
#include "p2p/message/matcher.hpp"

namespace isthmus::abi {

/// What a handle of MPI_Mprobe stands for: a message out of matching, and the communicator it came by.
class MatchedMessage final : public RefCounted {
 public:
  explicit MatchedMessage(Ref<Communicator> comm) : comm_(std::move(comm)) {}

  [[nodiscard]] Communicator& communicator() const noexcept { return *comm_; }
  /// To be received once, which consumes it. Null until it is set.
  [[nodiscard]] UnexpectedMessage* message() const noexcept { return message_; }
  void set_message(UnexpectedMessage* message) noexcept { message_ = message; }

 private:
  Ref<Communicator> comm_;
  UnexpectedMessage* message_ = nullptr;
};

}  // namespace isthmus::abi
