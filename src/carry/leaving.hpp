#pragma once

namespace isthmus::carry {

/// What goes on for other processes when this one asks for nothing any more.
class Leaving {
 public:
  Leaving() = default;
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;
  /// Gives up what is still under way. Without the engine's lock.
  virtual ~Leaving() = default;

  /// Not collective: it ends when all have left, or when it fails.
  virtual void leave() noexcept = 0;
  [[nodiscard]] virtual bool is_over() const noexcept = 0;
};

}  // namespace isthmus::carry
