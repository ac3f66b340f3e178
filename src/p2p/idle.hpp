#pragma once

#include <cstdint>

namespace isthmus {

class Engine;

/// What a waiting thread does between two fruitless looks: poll, let others run, sleep, by the job's policy.
/// One object per wait.
class Idle {
 public:
  explicit Idle(Engine& engine) noexcept : engine_(engine) {}

  /// Something happened: begin again with polling.
  void reset() noexcept { looks_ = 0; }
  /// Nothing happened. Returns after a moment with the engine's lock held again; may sleep until a peer or
  /// thread has news.
  void pause();

 private:
  void pause_spinning();
  void pause_sharing();

  Engine& engine_;
  std::uint32_t looks_ = 0;
};

}  // namespace isthmus
