#pragma once

#include <cstdint>

namespace isthmus {

class Engine;

/// What a waiting thread does between two fruitless looks: poll, let others run, sleep, by the job's policy.
/// One object per wait.
class Idle {
 public:
  explicit Idle(Engine& engine) noexcept : engine_(engine) {}
  ~Idle() { reset(); }
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;

  /// Something happened: begin again with polling.
  void reset() noexcept {
    looks_ = 0;
    polled_enough_ = false;
    if (announced_) withdraw();
  }
  /// Nothing happened. Returns after a moment with the engine's lock held again; may sleep until a peer or
  /// thread has news.
  void pause();

 private:
  void pause_spinning();
  void pause_sharing();
  void pause_napping();

  void withdraw() noexcept;
  /// Whether this wait has lasted as long as a rank polls before it yields (ISTHMUS_SPIN_MICROSECONDS).
  bool has_polled_enough() noexcept;

  Engine& engine_;
  std::uint32_t looks_ = 0;
  bool polled_enough_ = false;
  std::int64_t began_ = 0;  ///< nanoseconds of the steady clock, from the first look that read it on
  bool announced_ = false;  ///< peers have been told that this rank may sleep
};

}  // namespace isthmus
