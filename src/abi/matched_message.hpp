#pragma once

#include <utility>

#include "base/ref.hpp"
#include "comm/communicator.hpp"
#include "p2p/matcher.hpp"

namespace isthmus::abi {

/// What a handle of MPI_Mprobe stands for: a message out of matching, and the communicator it came by.
class MatchedMessage final : public RefCounted {
 public:
  MatchedMessage(Ref<Communicator> comm, UnexpectedMessage* message)
      : comm_(std::move(comm)), message_(message) {}

  [[nodiscard]] Communicator& communicator() const noexcept { return *comm_; }
  /// To be received once, which consumes it.
  [[nodiscard]] UnexpectedMessage* message() const noexcept { return message_; }

 private:
  Ref<Communicator> comm_;
  UnexpectedMessage* message_;
};

}  // namespace isthmus::abi
