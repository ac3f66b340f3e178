#include "route/gpu/ways.hpp"

#include <optional>

namespace isthmus {
namespace {

std::optional<GpuWay> way_of(Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::gpu_courier:
      return GpuWay::courier;
    case Protocol::gpu_push:
      return GpuWay::push;
    case Protocol::gpu_pull:
      return GpuWay::pull;
    case Protocol::gpu_bounce:
      return GpuWay::bounce;
    case Protocol::gpu_staged:
      return GpuWay::staged;
    default:
      return std::nullopt;
  }
}

bool is_near(GpuLocality locality) noexcept {
  return locality == GpuLocality::nvlink || locality == GpuLocality::same_gpu;
}

/// Whether a GPU copies it from where it lies to where it is to lie.
bool has_straight(GpuWays ways) noexcept {
  return ways.has(GpuWay::courier) || ways.has(GpuWay::push) || ways.has(GpuWay::pull);
}

}  // namespace

GpuWays ways_worth_a_trial(const Plan& plan, const GpuPlanKey& key, std::uint64_t bytes) noexcept {
  GpuWays ways;
  const bool is_near_pair = key.from.is_on_gpu() && key.to.is_on_gpu() && is_near(key.locality);
  for (const Way& each : plan.serving(bytes)) {
    const std::optional<GpuWay> way = way_of(each.protocol);
    if (!way) {
      if (ways.bits == 0) return {};
      continue;
    }
    if (ways.bits == 0) ways.assumed = *way;
    if (*way == GpuWay::bounce && has_straight(ways)) continue;
    if (*way == GpuWay::staged) {
      if (ways.bits != 0 && is_near_pair) continue;
      if (bytes > gpu_finely_from) ways.add(GpuWay::staged_finely);
    }
    ways.add(*way);
    if (*way == GpuWay::courier) break;
  }
  return ways;
}

GpuRoute route_of(const GpuPlanKey& key, GpuWays ways) noexcept {
  const bool is_pinned_target = key.to.is_pinned();
  if (!key.to.is_on_gpu()) return is_pinned_target ? GpuRoute::to_pinned : GpuRoute::to_pageable;
  if (!key.from.is_on_gpu()) return key.from.is_pinned() ? GpuRoute::from_pinned : GpuRoute::from_pageable;
  const bool is_closed = !has_straight(ways);
  switch (key.locality) {
    case GpuLocality::same_gpu:
      return GpuRoute::same_gpu;
    case GpuLocality::nvlink:
      return is_closed ? GpuRoute::nvlink_closed : GpuRoute::nvlink;
    case GpuLocality::pcie:
      return is_closed ? GpuRoute::pcie_closed : GpuRoute::pcie;
    default:
      return GpuRoute::apart;
  }
}

}  // namespace isthmus
