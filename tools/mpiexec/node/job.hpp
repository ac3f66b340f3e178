#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "binding/core_claims.hpp"
#include "binding/gpu_binding.hpp"
#include "command/environment.hpp"
#include "command/options.hpp"
#include "container/container.hpp"
#include "launch/region/shared_region.hpp"
#include "node/region_server.hpp"
#include "place/binding.hpp"
#include "place/topology.hpp"
#include "ranks/program.hpp"

namespace isthmus::mpiexec {

/// All that is decided before the first rank starts.
struct Job {
  /// Of a job on several hosts, the ranks here.
  struct Share {
    std::string job;
    std::uint32_t first_rank = 0;
    std::uint32_t world = 0;
    std::string mapping;    ///< which ranks share hosts, as PMI_process_mapping has it
    std::string migration;  ///< as `launcher_variable::migratable` says it; empty: ranks stay on their host
  };
  struct PartPlan {
    std::int32_t appnum;
    std::uint32_t ranks;
    std::uint32_t all_ranks;  ///< on all hosts
    Program program;
    Environment environment;  ///< of its ranks, but for what differs between them
  };
  std::string name;
  std::string host;
  Topology topology;
  std::uint32_t processors;  ///< hardware threads' worth of time for this job
  std::uint32_t ranks;       ///< here
  std::uint32_t ranks_per_process = 1;
  std::uint32_t workers = 1;  ///< threads of a process that has several ranks, where it has as many ranks
  bool migratable = false;    ///< ranks may go on in other processes
  Share share;
  wire::IdlePolicy idle;
  bool outlive = false;  ///< ranks go on when others have died
  Settings settings;     ///< for the job as a whole
  std::vector<PartPlan> parts;
  bool compatible_environment;  ///< ranks get the variables of other launchers too
  std::optional<Container> container;
  std::vector<Binding> bindings;                        ///< by rank
  std::vector<CpuSet> spare;                            ///< by rank: for threads that help it
  std::vector<std::optional<GpuBinding::Choice>> gpus;  ///< by rank; empty without --gpu-bind
  CoreClaims claims;                  ///< of the cores that ranks are bound to without having been told
  std::vector<std::string> warnings;  ///< for the user, once

  std::optional<RegionServer> region_server;  ///< for containers that can inherit nothing

  /// Finds programs, processors and places. Starts nothing.
  static std::expected<Job, StartError> plan(const Options& options,
                                             const std::optional<Share>& share = std::nullopt);

  /// The slot of the first of the ranks here: where ranks come from other hosts, each rank of the job has
  /// one.
  [[nodiscard]] std::uint32_t first_slot() const { return share.migration.empty() ? 0 : share.first_rank; }
  /// The region for the job's ranks, with each rank's place as far as the launcher decides it.
  [[nodiscard]] std::expected<launch::SharedRegion, StartError> make_region() const;

  /// For --verbose and --report-bindings.
  [[nodiscard]] std::string summary() const;
  [[nodiscard]] std::string binding_report() const;
};

}  // namespace isthmus::mpiexec
