#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <vector>

namespace isthmus::mpiexec {

using Clock = std::chrono::steady_clock;

/// Something that mpiexec looks after while the job runs, all in one loop around poll.
class Attendant {
 public:
  virtual ~Attendant() = default;

  virtual void prepare(std::vector<pollfd>& waited_for) const = 0;
  /// Something has happened, perhaps here. Never blocks.
  virtual void react() = 0;
  /// When `react` is due even if nothing happens.
  [[nodiscard]] virtual std::optional<Clock::time_point> deadline() const { return std::nullopt; }
};

}  // namespace isthmus::mpiexec
