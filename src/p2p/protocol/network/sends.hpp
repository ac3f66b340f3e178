#pragma once

#include <algorithm>
#include <vector>

#include "p2p/active/completion.hpp"
#include "p2p/message/request.hpp"

namespace isthmus {

/// Sends to other hosts of which more has to be heard than that their bytes have left.
/// `Request::parts_left` counts what is still to happen: the bytes leave, a synchronous send is matched, the
/// chunks of one that has been cut leave. It is 0 of a send that goes in chunks from the start.
class NetworkSends {
 public:
  explicit NetworkSends(Completion& completion) noexcept : completion_(completion) {}

  std::vector<Request*> asked;           ///< their receiver has been asked whether it still can forget them
  std::vector<Request*> unacknowledged;  ///< synchronous ones whose match has not been heard of

  [[nodiscard]] bool is_asked(const Request& send) const noexcept {
    return std::ranges::find(asked, &send) != asked.end();
  }
  /// One of the things that `send` waits for has happened.
  void end_part(Request& send) {
    // The answer to a question of this process still comes, and finishes it.
    if (--send.parts_left == 0 && !is_asked(send)) completion_.finish(send);
  }

 private:
  Completion& completion_;
};

}  // namespace isthmus
