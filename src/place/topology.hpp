#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "place/cpu_set.hpp"

namespace isthmus {

/// A core with those of its hardware threads that this process may use. Numbers count from 0 in the machine's
/// own order, over all of the machine and not only over what is allowed.
struct Core {
  int index = 0;
  int package = 0;  ///< socket
  int numa = 0;     ///< NUMA node
  CpuSet cpus;
};

/// The processors that this process may use: what the machine has, without what cgroups and affinity take
/// away.
struct Topology {
  std::vector<Core> cores;  ///< in the machine's order, each with at least one hardware thread
  CpuSet cpus;              ///< of all cores
  int machine_packages = 0;
  int machine_numa_nodes = 0;
  int machine_cores = 0;
  int machine_cpus = 0;
  /// Whether it describes this machine. HWLOC_SYNTHETIC and HWLOC_XMLFILE describe others unless
  /// HWLOC_THISSYSTEM=1: then nothing can be bound, and affinity does not count.
  bool this_machine = true;

  /// Asks hwloc, which honours its own variables, for processors and memory only.
  static Result<Topology> load();

  [[nodiscard]] int packages() const;    ///< with an allowed core
  [[nodiscard]] int numa_nodes() const;  ///< with an allowed core
};

/// Hardware threads' worth of time that the cgroups of this process grant (cpu.max, cpu.cfs_quota_us),
/// rounded up; 0 where there is no limit or it cannot be read.
unsigned processor_quota();

}  // namespace isthmus
