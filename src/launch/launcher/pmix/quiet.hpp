#pragma once

#include "base/unique_fd.hpp"

namespace isthmus::launch {

/// While it lives, what this process writes to stderr goes nowhere: libpmix prints what it also returns.
class QuietStderr {
 public:
  QuietStderr() noexcept;
  ~QuietStderr();
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;

 private:
  UniqueFd stderr_;
};

}  // namespace isthmus::launch
