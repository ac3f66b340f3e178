#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "node/job.hpp"
#include "node/pmi_server.hpp"
#include "ranks/signals.hpp"
#include "ranks/supervisor.hpp"
#include "stuck/door.hpp"

namespace isthmus::mpiexec {

/// The job on several hosts to which the ranks here belong, as its agent sees it.
class WiderJob : public Attendant, public Overseer {
 public:
  [[nodiscard]] virtual Job::Share share() const = 0;
  virtual void refuse(const StartError& error) = 0;
  /// All ranks here run. Both stay the caller's until `ended`.
  virtual void started(Supervisor& supervisor, PmiServer& pmi) = 0;
  virtual void barrier(const Pairs& put) = 0;
  /// A piece of what a rank here, which has ended, has written of itself. False: no more of it, of any rank.
  virtual bool traced(std::uint32_t rank, std::string_view bytes) = 0;
  virtual void ended() = 0;
};

/// Children that a shell had before it became mpiexec by exec.
std::vector<pid_t> present_children();

/// Opens the door for `isthmus stuck`; where that cannot be, a warning says so.
void open_door(stuck::Door& door, Output& output);

/// Starts the ranks that `options` asks for on this host and watches over them: a whole job, or with `wider`
/// a part of one. mpiexec's exit status.
int run_job(const Options& options, const Signals& signals, const std::vector<pid_t>& bystanders,
            WiderJob* wider);

}  // namespace isthmus::mpiexec
