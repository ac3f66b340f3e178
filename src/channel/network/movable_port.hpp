#pragma once

#include <cstdint>
#include <memory>

#include "base/rank_turns.hpp"
#include "base/settings.hpp"
#include "channel/network/port.hpp"

namespace isthmus::network {

/// A port that goes with its rank to other hosts: all that it knows lies in the rank's memory, and its
/// sockets are opened anew where they are needed. What has been offered and not fetched stays on offer.
class MovablePort : public Port {
 public:
  /// Messages and answers that have been handed to `send`, `fetch` and `decline`, and those of peers that
  /// have been taken in, so far. Where nothing is under way the sums over all ranks are the same.
  struct Counts {
    std::uint64_t sent = 0, received = 0;
  };
  [[nodiscard]] virtual Counts counts() const noexcept = 0;
  /// Closes all sockets. Nothing is under way, and all ports of the job do the same before the next message.
  virtual void close_lines() noexcept = 0;
};

/// Over the lines of the process that `turns` are of. `events` and `turns` must outlive the port.
Result<std::unique_ptr<MovablePort>> open_movable(const Settings& settings, Identity self, Events& events,
                                                  RankTurns& turns);

}  // namespace isthmus::network
