#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace isthmus::mpiexec {

/// An agent's standard input: the job's key, and for the agent of rank 0 what mpiexec itself is given.
class Feed {
 public:
  /// Empty ends if a pipe cannot be had.
  Feed(std::string first, bool relays);

  /// The agent's end; `started` when the agent has it.
  [[nodiscard]] int reader() const noexcept { return reader_.get(); }
  void started() noexcept { reader_.reset(); }

  void prepare(std::vector<pollfd>& waited_for) const;
  void react();

 private:
  [[nodiscard]] bool may_read() const;

  UniqueFd reader_, writer_;
  std::string pending_;
  bool relays_;
};

}  // namespace isthmus::mpiexec
