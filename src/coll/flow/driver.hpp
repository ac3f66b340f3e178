#pragma once

#include <coroutine>

#include "p2p/engine.hpp"
#include "p2p/progress/poll_list.hpp"

namespace isthmus::coll {

/// What a flow waits for.
class Awaited {
 public:
  /// Whether the flow can go on. Makes no progress.
  [[nodiscard]] virtual bool is_complete() const noexcept = 0;
  /// Whether other members complete it by writing to memory, so that nothing but a look at that is needed.
  [[nodiscard]] bool is_in_memory() const noexcept { return in_memory_; }

 protected:
  explicit Awaited(bool in_memory = false) noexcept : in_memory_(in_memory) {}
  ~Awaited() = default;

 private:
  const bool in_memory_;
};

/// Resumes one flow at a time, whenever what it waits for is complete: from the engine's progress, in which
/// it is registered while the flow is suspended.
class Driver final : public Polled {
 public:
  explicit Driver(Engine& engine) noexcept : engine_(engine) {}
  /// For awaitables: `flow`, which is suspended, goes on when `on` is complete.
  void suspend(const Awaited& on, std::coroutine_handle<> flow) noexcept {
    awaited_ = &on;
    flow_ = flow;
    engine_.polled().add(*this);
  }

  /// Polls up to `times`, as long as nothing is waited for that needs the engine's progress. For a rank that
  /// has come to wait, or to test.
  void look(unsigned times) {
    LivePlans& plans = engine_.live_plans();
    plans.come();
    for (; times > 0 && awaited_ && awaited_->is_in_memory(); --times)
      poll();
    plans.leave();
  }

  unsigned poll() override {
    if (!awaited_ || !awaited_->is_complete()) return 0;
    awaited_ = nullptr;
    flow_.resume();
    if (!awaited_) {  // the flow has come to its end
      engine_.polled().remove(*this);
      engine_.wake_threads();
    }
    return 1;
  }

 private:
  Engine& engine_;
  const Awaited* awaited_ = nullptr;
  std::coroutine_handle<> flow_;
};

}  // namespace isthmus::coll
