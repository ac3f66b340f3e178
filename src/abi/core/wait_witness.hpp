#pragma once

#include "p2p/progress/wait_telling.hpp"

namespace isthmus::abi {

class Runtime;

/// What the C edge knows of a wait that has become long: the function that the program has called, the
/// collective that it is in, and the names of communicators.
class WaitWitness final : public WaitTelling::Witness {
 public:
  explicit WaitWitness(Runtime& runtime) noexcept : runtime_(runtime) {}

  /// Found on the stack, so that calls need not store it: the innermost function of this library that
  /// programs can call. Once a wait.
  const char* call() noexcept override;
  void say_wait(wire::WaitReport& report, WaitItems& items) noexcept override;

 private:
  Runtime& runtime_;
};

}  // namespace isthmus::abi
