#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace isthmus::mpiexec {

/// The standard input on its way to rank 0. A file or a pipe is inherited; a terminal is read by mpiexec,
/// because the ranks are not in the terminal's foreground process group and would be stopped for reading from
/// it.
class Input {
 public:
  Input();

  /// What rank 0 and the others shall have as stdin; -1: as mpiexec has it.
  [[nodiscard]] int first() const noexcept { return reader_.get(); }
  [[nodiscard]] int others() const noexcept { return nothing_.get(); }
  /// Rank 0 runs: its end is its own now.
  void started() noexcept { reader_.reset(); }

  void prepare(std::vector<pollfd>& waited_for) const;
  void react();

 private:
  [[nodiscard]] bool foreground() const;

  UniqueFd nothing_;
  UniqueFd reader_, writer_;  ///< a pipe, only for a terminal
  std::string pending_;
  bool at_end_ = false;
};

}  // namespace isthmus::mpiexec
