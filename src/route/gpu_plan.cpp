#include "route/gpu_plan.hpp"

#include <limits>

namespace isthmus {
namespace {

constexpr std::uint64_t any_length = std::numeric_limits<std::uint64_t>::max();

std::string_view why_unreachable(GpuLocality locality) noexcept {
  switch (locality) {
    case GpuLocality::no_peer_access:
      return "the two GPUs do not reach each other's memory";
    case GpuLocality::not_visible:
      return "a process does not see the other's GPU (CUDA_VISIBLE_DEVICES)";
    default:
      return {};
  }
}

std::string_view why_not_exportable(const GpuPlanEnd& end) noexcept {
  if (end.is_exportable()) return {};
  return end.kind == MemoryKind::managed ? "CUDA does not hand managed memory to another process"
                                         : "memory of the host is not handed to another process";
}

std::string_view first_of(std::string_view one, std::string_view other) noexcept {
  return one.empty() ? other : one;
}

std::string_view reason_of(const Reach& reach) noexcept {
  return reach ? std::string_view() : std::string_view(reach.error().text);
}

}  // namespace

std::string_view name_of(GpuLocality locality) noexcept {
  switch (locality) {
    case GpuLocality::same_gpu:
      return "the same GPU";
    case GpuLocality::nvlink:
      return "GPUs over NVLink";
    case GpuLocality::pcie:
      return "GPUs over PCIe";
    case GpuLocality::no_peer_access:
      return "GPUs that do not reach each other";
    case GpuLocality::not_visible:
      return "GPUs that one process does not see both of";
    case GpuLocality::other_host:
      return "another host";
    case GpuLocality::unknown:
      break;
  }
  return "GPUs not known yet";
}

GpuLocality locality_of(cuda::Device one, cuda::Device other, PeerLink link) noexcept {
  if (one == other) return GpuLocality::same_gpu;
  switch (link) {
    case PeerLink::nvlink:
      return GpuLocality::nvlink;
    case PeerLink::pcie:
      return GpuLocality::pcie;
    case PeerLink::none:
      break;
  }
  return GpuLocality::no_peer_access;
}

std::string_view why_not(const GpuPlanInputs& inputs, Protocol way) noexcept {
  if (inputs.locality == GpuLocality::other_host)
    return way == Protocol::network_eager || way == Protocol::network_rendezvous ||
                   way == Protocol::network_chunks || (way == Protocol::network_gpu && inputs.network)
               ? ""
               : "it is on another host";
  constexpr std::string_view setting = "ISTHMUS_GPU_PATH wants another way";
  switch (way) {
    case Protocol::gpu_push:
      if (inputs.path != GpuPathSetting::automatic && inputs.path != GpuPathSetting::push) return setting;
      if (!inputs.from.is_on_gpu() && !inputs.from.is_pinned())
        return "a GPU copies pageable memory no faster than the processors";
      return first_of(why_not_exportable(inputs.to),
                      first_of(why_unreachable(inputs.locality), reason_of(inputs.push)));
    case Protocol::gpu_pull: {
      if (inputs.path == GpuPathSetting::staged || inputs.path == GpuPathSetting::network) return setting;
      return first_of(why_not_exportable(inputs.from),
                      first_of(why_unreachable(inputs.locality), reason_of(inputs.pull)));
    }
    case Protocol::eager:
      return inputs.from.is_on_gpu() && inputs.gpu_eager_limit == 0 ? "it would be copied twice" : "";
    case Protocol::gpu_bounce:
      if (inputs.path != GpuPathSetting::automatic) return setting;
      if ((!inputs.from.is_on_gpu() && !inputs.from.is_pinned()) ||
          (!inputs.to.is_on_gpu() && !inputs.to.is_pinned()))
        return "a side is in pageable memory, or in memory that moves";
      return first_of(why_unreachable(inputs.locality), reason_of(inputs.bounce));
    case Protocol::gpu_staged:
      return {};
    case Protocol::gpu_loopback:
      if (inputs.path != GpuPathSetting::network) return setting;
      return first_of(why_not_exportable(inputs.from),
                      first_of(why_not_exportable(inputs.to), reason_of(inputs.network)));
    default:
      return "it is no way of GPU memory";
  }
}

GpuPlan::GpuPlan(const GpuPlanInputs& inputs) {
  const std::uint64_t eager = inputs.from.is_on_gpu() ? inputs.gpu_eager_limit : inputs.host_eager_limit;
  if (inputs.locality == GpuLocality::other_host) {
    add(inputs.host_eager_limit, Protocol::network_eager);
    if (inputs.from.is_exportable() && inputs.network) {
      add(any_length, Protocol::network_gpu);
      return;
    }
    // What a host sends is offered as a whole, and cut if the receiver is a GPU.
    const bool is_chunked = inputs.chunks_from > 0 && (inputs.from.is_on_gpu() || inputs.to.is_on_gpu());
    if (is_chunked && !inputs.from.is_on_gpu()) add(inputs.chunks_from - 1, Protocol::network_rendezvous);
    add(any_length, is_chunked ? Protocol::network_chunks : Protocol::network_rendezvous);
    return;
  }
  if (eager > 0) add(eager, Protocol::eager);
  add_copies(inputs);
  if (why_not(inputs, Protocol::gpu_bounce).empty()) add(any_length, Protocol::gpu_bounce);
  add(any_length, Protocol::gpu_staged);
}

void GpuPlan::add_copies(const GpuPlanInputs& inputs) noexcept {
  const bool can_push = why_not(inputs, Protocol::gpu_push).empty();
  const bool can_pull = why_not(inputs, Protocol::gpu_pull).empty();
  if (why_not(inputs, Protocol::gpu_loopback).empty()) return add(any_length, Protocol::gpu_loopback);
  if (inputs.to.kind == MemoryKind::pageable) {
    const std::uint64_t limit = inputs.direct_limit != 0 ? inputs.direct_limit : default_gpu_direct_limit;
    if (can_pull && !inputs.many_under_way) add(limit, Protocol::gpu_pull);
    return;
  }
  if (can_push && can_pull && inputs.path == GpuPathSetting::automatic) {
    // On one GPU it is all the same, and reading takes a message less.
    if (inputs.locality == GpuLocality::same_gpu) return add(any_length, Protocol::gpu_pull);
    const std::uint64_t from = inputs.push_from != 0 ? inputs.push_from : default_gpu_push_from;
    if (from > 1) add(from - 1, Protocol::gpu_pull);
  }
  if (can_push && (inputs.path != GpuPathSetting::pull)) return add(any_length, Protocol::gpu_push);
  if (can_pull) add(any_length, Protocol::gpu_pull);
}

void GpuPlan::add(std::uint64_t up_to, Protocol way) noexcept {
  if (count_ > 0 && up_to <= steps_[count_ - 1].up_to) return;
  steps_[count_++] = {up_to, way};
}

}  // namespace isthmus
