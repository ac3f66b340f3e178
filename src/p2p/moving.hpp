#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "p2p/active/unexpected.hpp"
#include "p2p/message/request.hpp"

namespace isthmus {

/// What an engine knows while ranks move between hosts.
struct Moving {
  std::vector<std::uint32_t> to;  ///< which process each rank goes on in
  bool leaves = false;            ///< this one its host
  std::vector<bool> is_affected;  ///< by peer: it comes to this rank's host, or leaves it, or both change
  /// What is brought in, and where to.
  struct Bringing {
    UnexpectedMessage* message;
    Request* receive;
    std::unique_ptr<std::byte[]> bytes;
  };
  std::vector<Bringing> bringing;
  std::vector<UnexpectedMessage*> taken_back;  ///< by their senders
};

}  // namespace isthmus
