#pragma once

#include <cstdint>
#include <string>

#include "place/cpu_set.hpp"

namespace isthmus {

/// The one socket and NUMA node that a set of hardware threads lies in, as the kernel numbers them; -1 where
/// they are several, or the kernel does not tell.
struct Spot {
  std::int32_t package = -1;
  std::int32_t numa = -1;
};

/// As `sysfs` tells, in three small files whatever the size of the machine: for a rank that no launcher of
/// ours has told, and which does without hwloc.
[[nodiscard]] Spot find_spot(const CpuSet& cpus, const std::string& sysfs = "/sys");

}  // namespace isthmus
