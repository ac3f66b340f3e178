#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "route/gpu/plan.hpp"

namespace isthmus {

/// Kinds of memory whose messages go in the same ways: from each of `from` to each of `to`.
struct GpuPairs {
  struct Refusal {
    Protocol way;
    std::string why;
    friend bool operator==(const Refusal&, const Refusal&) = default;
  };
  std::vector<MemoryKind> from, to;  ///< managed memory: whose pages a GPU has
  std::vector<Step> steps;
  std::vector<Refusal> refusals;  ///< of the ways that no step takes
};

/// The plans between all kinds of memory, for people, pairs with the same one put together. `plan` gives that
/// of a pair, and what it follows from, for the reasons. Two memories of hosts are left out: they have plans
/// of their own.
std::vector<GpuPairs> gpu_pairs(
    const std::function<std::pair<Plan, GpuPlanInputs>(GpuPlanEnd, GpuPlanEnd)>& plan);

}  // namespace isthmus
