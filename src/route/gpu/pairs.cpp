#include "route/gpu/pairs.hpp"

#include <algorithm>
#include <array>

namespace isthmus {
namespace {

constexpr std::array kinds{MemoryKind::device,  MemoryKind::vmm,    MemoryKind::pool,
                           MemoryKind::managed, MemoryKind::pinned, MemoryKind::pageable};
constexpr std::array ways{Protocol::gpu_push, Protocol::gpu_pull, Protocol::gpu_loopback};

GpuPairs pair_of(const Plan& plan, const GpuPlanInputs& inputs) {
  GpuPairs pair{.from = {inputs.from.kind},
                .to = {inputs.to.kind},
                .steps = {plan.steps().begin(), plan.steps().end()},
                .refusals = {}};
  if (inputs.locality == GpuLocality::other_host) return pair;
  for (const Protocol way : ways)
    if ((way != Protocol::gpu_loopback || inputs.path == GpuPathSetting::network) &&
        std::ranges::find(pair.steps, way, &Step::protocol) == pair.steps.end())
      if (const auto why = why_not(inputs, way); !why.empty())
        pair.refusals.push_back({way, std::string(why)});
  return pair;
}

bool have_one_plan(const GpuPairs& one, const GpuPairs& other) {
  return one.steps == other.steps && one.refusals == other.refusals;
}

}  // namespace

std::vector<GpuPairs> gpu_pairs(
    const std::function<std::pair<Plan, GpuPlanInputs>(GpuPlanEnd, GpuPlanEnd)>& plan) {
  std::vector<GpuPairs> all;
  for (const MemoryKind from : kinds) {
    std::vector<GpuPairs> row;
    for (const MemoryKind to : kinds) {
      const GpuPlanEnd source{.kind = from, .has_pages = true};
      const GpuPlanEnd target{.kind = to, .has_pages = true};
      if (!source.is_on_gpu() && !target.is_on_gpu()) continue;
      const auto [planned, inputs] = plan(source, target);
      GpuPairs pair = pair_of(planned, inputs);
      const auto same =
          std::ranges::find_if(row, [&](const auto& known) { return have_one_plan(known, pair); });
      if (same != row.end())
        same->to.push_back(to);
      else
        row.push_back(std::move(pair));
    }
    for (GpuPairs& pair : row) {
      const auto same = std::ranges::find_if(
          all, [&](const auto& known) { return known.to == pair.to && have_one_plan(known, pair); });
      if (same != all.end())
        same->from.push_back(from);
      else
        all.push_back(std::move(pair));
    }
  }
  return all;
}

}  // namespace isthmus
