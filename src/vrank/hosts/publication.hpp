#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "vrank/hosts/address.hpp"
#include "vrank/hosts/job_layout.hpp"

namespace isthmus::vrank {

/// The launcher's descriptors of a process's ranks (PMI_FD), in order, which are closed: ranks need the
/// launcher for nothing else, and descriptors stay behind when they leave.
struct LauncherDescriptors {
  std::uint32_t first_rank = 0, world = 1;
  std::vector<int> descriptors;
};

/// Tells all processes of the job this one's address, and returns theirs, in the order of `layout`. All
/// processes do so, before they have ranks.
Result<std::vector<ProcessAddress>> exchange(const LauncherDescriptors& launcher, const JobLayout& layout,
                                             const ProcessAddress& own);

}  // namespace isthmus::vrank
