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
  /// A descriptor for one rank, and its number in the process of that rank.
  struct Offered {
    UniqueFd fd;
    int number;
  };

  std::expected<void, StartError> start_part(Job::PartPlan& part);
  /// The next ranks of the part that are one process.
  std::expected<void, StartError> start_ranks(Job::PartPlan& part, std::uint32_t count);
  std::expected<Process, ProcessError> start_process(const Job::PartPlan& part,
                                                     const std::vector<Offered>& offered,
                                                     const Output::RankEnds& ends);
  void name_rank(Environment& environment) const;
  [[nodiscard]] std::string migration_word();
  [[nodiscard]] std::uint32_t rank() const { return parts_.job.share.first_rank + slot_; }
  // They set what the rank finds in its environment, and add to `offered` what it inherits: nothing where it
  // is offered none.
  std::expected<void, StartError> offer_pmi(const Job::PartPlan& part, Environment& environment,
                                            std::vector<Offered>& offered);
  std::expected<void, StartError> offer_trace_file(Environment& environment, std::vector<Offered>& offered);

  void started(const Process& process, std::uint32_t count);

  Parts parts_;
  UniqueFd region_, box_;  ///< under numbers that programs leave alone
  std::uint32_t slot_ = 0;
  bool bind_warned_ = false;
  std::string migration_word_;  ///< the same for all processes of the job
};

}  // namespace isthmus::mpiexec
