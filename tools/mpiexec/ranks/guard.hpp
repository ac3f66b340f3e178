#pragma once

#include <sys/types.h>

#include <expected>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"

namespace isthmus::mpiexec {

/// A small process that leads the job's process group, so that the group lives as long as the job and signals
/// reach all of it at once, and that kills the group when mpiexec is gone without having ended the job
/// (kill -9). It does not react to signals itself.
class Guard {
 public:
  /// `cleaning` is a shell command for what the group's end leaves behind, run after a kill -9 of mpiexec;
  /// it may be empty. An errno on failure. To be called before mpiexec grows: it forks.
  static std::expected<Guard, int> start(const std::string& cleaning);
  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&&) = delete;
  ~Guard();  ///< Ends it and reaps it; the group lives on while it has members.

  /// The job's process group.
  [[nodiscard]] pid_t group() const noexcept { return group_; }
  /// Somebody has reaped it: its number may be another process's now.
  void reaped() noexcept { pid_ = -1; }

 private:
  Guard(pid_t pid, UniqueFd lifeline) : pid_(pid), group_(pid), lifeline_(std::move(lifeline)) {}
  pid_t pid_;
  pid_t group_;
  UniqueFd lifeline_;  ///< a pipe's end that only mpiexec holds
};

}  // namespace isthmus::mpiexec
