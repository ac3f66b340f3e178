#pragma once

#include "p2p/progress/poll_list.hpp"

namespace isthmus {

class Engine;

/// What the loss of a process has left to do because there was no memory for it. In the engine's `PollList`
/// until it is done.
class Aftermath final : public Polled {
 public:
  explicit Aftermath(Engine& engine) noexcept : engine_(engine) {}
  unsigned poll() override;

 private:
  Engine& engine_;
};

}  // namespace isthmus
