#pragma once

namespace isthmus::testing_memory {

/// While it lives, the `number`-th allocation of this thread by `operator new` fails; 0: none does.
class Shortage {
 public:
  explicit Shortage(long number);
  ~Shortage();
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;

  /// Whether one has failed.
  [[nodiscard]] bool was_felt() const;
};

}  // namespace isthmus::testing_memory
