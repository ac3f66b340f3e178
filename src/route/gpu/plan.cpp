#include "route/gpu/plan.hpp"

#include <algorithm>
#include <array>

#include "gpu/driver/refusal.hpp"

namespace isthmus {
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

namespace {

using Inputs = GpuPlanInputs;

constexpr std::string_view another_wanted = gpu_refusal::path_is_set.text;
constexpr std::string_view on_another_host = "it is on another host";

std::unexpected<std::string_view> no(std::string_view why) noexcept {
  return std::unexpected(why);
}

bool is_remote(const Inputs& inputs) noexcept {
  return inputs.locality == GpuLocality::other_host;
}

std::string_view why_not_exportable(const GpuPlanEnd& end) noexcept {
  if (end.is_exportable()) return {};
  if (end.is_foreign) return "it is another process's memory";
  return end.kind == MemoryKind::managed ? gpu_refusal::managed.text
                                         : "memory of the host is not handed to another process";
}

std::string_view first_of(std::string_view one, std::string_view other) noexcept {
  return one.empty() ? other : one;
}

/// To whom a message is handed on as one run of bytes.
std::string_view why_not_one_export(const GpuPlanEnd& end) noexcept {
  return first_of(why_not_exportable(end), end.has_gaps ? "a message with gaps is no one run of memory" : "");
}

/// A copy between a GPU and memory of the host needs no way between two GPUs.
std::string_view why_apart(const Inputs& inputs) noexcept {
  if (inputs.locality == GpuLocality::no_peer_access && inputs.from.is_on_gpu() && inputs.to.is_on_gpu())
    return gpu_refusal::out_of_reach.text;
  return {};
}

/// Of what the receiver has to open itself.
std::string_view why_not_seen(const Inputs& inputs) noexcept {
  if (inputs.locality == GpuLocality::not_visible)
    return "this process does not see the sender's GPU (CUDA_VISIBLE_DEVICES)";
  return why_apart(inputs);
}

std::string_view reason_of(const Reach& reach) noexcept {
  return reach ? std::string_view() : std::string_view(reach.error().text);
}

Probed all_or(std::string_view why_not) noexcept {
  if (!why_not.empty()) return no(why_not);
  return Serves{};
}

// --- between hosts

Probed network_eager(const Inputs& inputs) noexcept {
  if (!is_remote(inputs)) return no("both are on one host");
  return Serves{.up_to = inputs.host_eager_limit};
}

/// Its sender hands it the memory, or its receiver does.
Probed network_gpu(const Inputs& inputs) noexcept {
  if (!is_remote(inputs)) return no("both are on one host");
  if (!inputs.network) return no(reason_of(inputs.network));
  return all_or(why_not_one_export(inputs.from.is_on_gpu() ? inputs.from : inputs.to));
}

/// What a host sends is offered as a whole, and cut if the receiver is a GPU.
Probed network_chunks(const Inputs& inputs) noexcept {
  if (!is_remote(inputs)) return no("both are on one host");
  if (inputs.chunks_from == 0) return no("there are no chunks");
  if (inputs.from.is_on_gpu()) return Serves{};
  if (!inputs.to.is_on_gpu()) return no("neither side is in GPU memory");
  return Serves{.from = inputs.chunks_from};
}

Probed network_rendezvous(const Inputs& inputs) noexcept {
  if (!is_remote(inputs)) return no("both are on one host");
  return Serves{};
}

// --- on one host

Probed eager(const Inputs& inputs) noexcept {
  if (is_remote(inputs)) return no(on_another_host);
  const std::uint64_t limit = inputs.from.is_on_gpu() ? inputs.gpu_eager_limit : inputs.host_eager_limit;
  if (limit == 0) return no(inputs.from.is_on_gpu() ? "it would be copied twice" : "it has been offered");
  return Serves{.up_to = limit};
}

Probed loopback(const Inputs& inputs) noexcept {
  if (is_remote(inputs)) return no(on_another_host);
  if (inputs.path != GpuPathSetting::network) return no(another_wanted);
  return all_or(first_of(why_not_one_export(inputs.from),
                         first_of(why_not_one_export(inputs.to), reason_of(inputs.network))));
}

/// As a read by the receiver's GPU, but that none is started for it.
Probed courier(const Inputs& inputs) noexcept {
  if (is_remote(inputs)) return no(on_another_host);
  if (inputs.path != GpuPathSetting::automatic) return no(another_wanted);
  if (inputs.one_process) return no("both ranks are one process");
  if (inputs.courier_limit == 0) return no("several messages are under way, or ISTHMUS_GPU_COURIER is off");
  const std::string_view why = first_of(why_not_one_export(inputs.from),
                                        first_of(why_not_one_export(inputs.to), reason_of(inputs.pull)));
  if (!why.empty()) return no(why);
  if (inputs.locality != GpuLocality::nvlink) return no("the two GPUs are not joined by NVLink");
  return Serves{.up_to = inputs.courier_limit};
}

Probed pull(const Inputs& inputs) noexcept {
  if (is_remote(inputs)) return no(on_another_host);
  if (inputs.path == GpuPathSetting::staged || inputs.path == GpuPathSetting::network)
    return no(another_wanted);
  const std::string_view unseen = inputs.one_process ? std::string_view() : why_not_seen(inputs);
  const std::string_view why =
      first_of(why_not_exportable(inputs.from), first_of(unseen, reason_of(inputs.pull)));
  if (!why.empty()) return no(why);
  // Gaps are filled by a kernel, whatever the memory.
  if (inputs.to.kind != MemoryKind::pageable || inputs.to.has_gaps) return Serves{};
  if (inputs.many_under_way) return no("several messages are under way, which go together another way");
  return Serves{.up_to = inputs.direct_limit != 0 ? inputs.direct_limit : default_gpu_direct_limit};
}

Probed push(const Inputs& inputs) noexcept {
  if (is_remote(inputs)) return no(on_another_host);
  if (inputs.path != GpuPathSetting::automatic && inputs.path != GpuPathSetting::push)
    return no(another_wanted);
  if (inputs.one_process) return no("both ranks are one process");
  if (!inputs.from.is_on_gpu() && !inputs.from.is_pinned())
    return no("a GPU copies pageable memory no faster than the processors");
  const std::string_view why =
      first_of(why_not_one_export(inputs.to), first_of(why_apart(inputs), reason_of(inputs.push)));
  if (!why.empty()) return no(why);
  if (inputs.path != GpuPathSetting::automatic || !pull(inputs)) return Serves{};
  if (inputs.locality == GpuLocality::same_gpu)
    return no("on one GPU it is all the same, and reading takes a message less");
  const std::uint64_t from = inputs.push_from != 0 ? inputs.push_from : default_gpu_push_from;
  return Serves{.from = from > 1 ? from : 0};
}

Probed bounce(const Inputs& inputs) noexcept {
  if (is_remote(inputs)) return no(on_another_host);
  if (inputs.path != GpuPathSetting::automatic) return no(another_wanted);
  if ((!inputs.from.is_on_gpu() && !inputs.from.is_pinned()) ||
      (!inputs.to.is_on_gpu() && !inputs.to.is_pinned()))
    return no("a side is in pageable memory, or in memory that moves");
  if (inputs.to.has_gaps) return no("the receive has gaps");
  return all_or(first_of(why_not_seen(inputs), reason_of(inputs.bounce)));
}

Probed staged(const Inputs& inputs) noexcept {
  if (is_remote(inputs)) return no(on_another_host);
  if (!inputs.from.is_on_gpu() && inputs.to.has_gaps)
    return no("it is unpacked from memory of the host, to which it comes as any other");
  return Serves{};
}

struct GpuProbe {
  Protocol protocol;
  ChannelId channel;
  Probed (*ask)(const Inputs& inputs) noexcept;
};

/// The best first; where both GPUs may copy, `push` says from which size on its is the better one.
constexpr std::array probes{
    GpuProbe{Protocol::network_eager, ChannelId::network, &network_eager},
    GpuProbe{Protocol::network_gpu, ChannelId::network, &network_gpu},
    GpuProbe{Protocol::network_chunks, ChannelId::network, &network_chunks},
    GpuProbe{Protocol::network_rendezvous, ChannelId::network, &network_rendezvous},
    GpuProbe{Protocol::eager, ChannelId::shm, &eager},
    GpuProbe{Protocol::gpu_loopback, ChannelId::network, &loopback},
    GpuProbe{Protocol::gpu_courier, ChannelId::gpu, &courier},
    GpuProbe{Protocol::gpu_push, ChannelId::gpu, &push},
    GpuProbe{Protocol::gpu_pull, ChannelId::gpu, &pull},
    GpuProbe{Protocol::gpu_bounce, ChannelId::gpu, &bounce},
    GpuProbe{Protocol::gpu_staged, ChannelId::shm, &staged},
};
// Those on one host, and those between hosts, never serve a pair both.
static_assert(probes.size() - 4 <= Plan::most_ways);

}  // namespace

std::string_view why_not(const GpuPlanInputs& inputs, Protocol way) noexcept {
  const auto* const probe = std::ranges::find(probes, way, &GpuProbe::protocol);
  if (probe == probes.end()) return "it is no way of GPU memory";
  const Probed probed = probe->ask(inputs);
  return probed ? std::string_view() : probed.error();
}

Plan gpu_plan(const GpuPlanInputs& inputs) noexcept {
  std::array<Way, Plan::most_ways> ways{};
  std::size_t count = 0;
  for (const GpuProbe& probe : probes)
    if (const Probed probed = probe.ask(inputs)) ways[count++] = {probe.protocol, probe.channel, *probed};
  return Plan(std::span(ways).first(count));
}

}  // namespace isthmus
