#pragma once

#include "launch/region/shared_region.hpp"
#include "node/job.hpp"
#include "node/pmi_server.hpp"
#include "node/trace_files.hpp"
#include "ranks/signals.hpp"
#include "ranks/supervisor.hpp"
#include "streams/input.hpp"
#include "streams/output.hpp"

namespace isthmus::mpiexec {

/// Starts the job's ranks in order and tells the supervisor of each. On an error some may run.
class Launcher {
 public:
  struct Parts {
    Job& job;
    const launch::SharedRegion& region;
    const Signals& signals;
    Guard& guard;
    Input& input;
    Output& output;
    Supervisor& supervisor;
    PmiServer* pmi;      ///< null: not offered
    TraceFiles* traces;  ///< null: ranks that are traced see the folder for it
  };
  explicit Launcher(const Parts& parts) : parts_(parts) {}

  std::expected<void, StartError> start_all();

 private:
  std::expected<void, StartError> start_part(Job::PartPlan& part);
  /// The next ranks of the part that are one process.
  std::expected<void, StartError> start_ranks(Job::PartPlan& part, std::uint32_t count);
  std::expected<Process, ProcessError> start_process(const Job::PartPlan& part,
                                                     const std::vector<UniqueFd>& pmi,
                                                     const UniqueFd& trace_file,
                                                     const Output::RankEnds& ends);
  void name_rank(Environment& environment) const;
  [[nodiscard]] std::uint32_t rank() const { return parts_.job.share.first_rank + slot_; }
  std::expected<UniqueFd, StartError> offer_pmi(const Job::PartPlan& part, Environment& environment);
  /// Empty where the rank is not traced, or inherits no descriptor.
  std::expected<UniqueFd, StartError> offer_trace_file(Environment& environment);

  void started(const Process& process, std::uint32_t count);

  Parts parts_;
  UniqueFd region_, box_;  ///< under numbers that programs leave alone
  std::uint32_t slot_ = 0;
  bool bind_warned_ = false;
};

}  // namespace isthmus::mpiexec
