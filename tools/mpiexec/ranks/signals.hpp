#pragma once

#include <csignal>
#include <optional>

#include "base/unique_fd.hpp"
#include "ranks/process.hpp"

namespace isthmus::mpiexec {

/// The signals that mpiexec takes part in, read from a descriptor. A signal that whoever started mpiexec had
/// set to be ignored (nohup, background jobs of scripts) stays ignored.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// The next one that has arrived, nothing if there is none.
  [[nodiscard]] std::optional<int> next() const;

  /// What ranks shall find in place of what mpiexec has set for itself.
  [[nodiscard]] const Inherited& inherited() const noexcept { return inherited_; }

  /// Ends mpiexec as `signal` would have, so that a shell's loop over mpiexec ends with it.
  [[noreturn]] void die_of(int signal) const;

 private:
  Inherited inherited_{};
  UniqueFd fd_;
};

}  // namespace isthmus::mpiexec
