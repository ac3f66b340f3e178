// Which plan holds between two memories, and what is known of it beforehand.
#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/messages.hpp"
#include "p2p/protocol/gpu/network_cut.hpp"

namespace isthmus {

GpuPlanInputs GpuMessages::plan_inputs(const Peer& peer) const {
  const Settings& settings = links_.settings();
  const bool may_use_network = !peer.is_local() || settings.gpu_path == GpuPathSetting::network;
  return {.locality = GpuLocality::unknown,
          .bounce = may_bounce() ? Reach{} : std::unexpected(Reason{"ISTHMUS_GPU_BOUNCE is 0"}),
          .network = may_use_network ? network_reach() : std::unexpected(Reason{}),
          .path = settings.gpu_path,
          .host_eager_limit = peer.eager_limit,
          .gpu_eager_limit = settings.gpu_eager_limit,
          .push_from = settings.gpu_push_from,
          .direct_limit = settings.gpu_direct_limit};
}

Reach GpuMessages::network_reach() const {
  if (!network_) return std::unexpected(Reason{"all ranks share memory"});
  return network_->gpu_reach();
}

Protocol GpuMessages::way_of(Peer& peer, const Request& receive, const GpuSource& source) {
  const wire::GpuExport& from = source.memory;
  GpuPlanInputs inputs = plan_inputs(peer);
  inputs.many_under_way = source.latency_bound == 0;
  // It has been offered, so it does not travel with its envelope.
  inputs.gpu_eager_limit = 0;
  inputs.from.has_pages = inputs.to.has_pages = true;
  inputs.from.kind = from.memory.exporter != 0 ? memory_kind_of(from.memory.kind) : MemoryKind::managed;
  if (receive.gpu) {
    const GpuPart& part = *receive.gpu;
    inputs.to.kind = part.buffer.kind;
    // Whether GPUs reach each other is found by opening memory, and known from then on.
    if (from.memory.exporter != 0 && gpus_.find(from.memory.device) == part.buffer.device)
      inputs.locality = GpuLocality::same_gpu;
    if (!part.is_one_copy() || !part.buffer.is_own || exports(peer).is_refused(part.buffer.allocation))
      inputs.push = std::unexpected(Reason{"it is not one run of memory that the peer can open"});
  } else {
    // Gaps are filled by a kernel, whatever the memory.
    inputs.to.kind = receive.payload.type ? MemoryKind::pinned : receive.memory;
    inputs.to.has_pages = false;
  }
  return GpuPlan(inputs).way(receive.limit);
}

Protocol GpuMessages::way_from_host(Peer& peer, const Request& receive, bool is_pinned) {
  GpuPlanInputs inputs = plan_inputs(peer);
  inputs.host_eager_limit = 0;
  inputs.from.kind = is_pinned ? MemoryKind::pinned : MemoryKind::pageable;
  const GpuPart& part = *receive.gpu;
  inputs.to = {.kind = part.buffer.kind, .has_pages = true};
  if (!part.is_one_copy() || !part.buffer.is_own || exports(peer).is_refused(part.buffer.allocation))
    inputs.push = std::unexpected(Reason{"it is not one run of memory that the peer can open"});
  return GpuPlan(inputs).way(receive.limit);
}

std::vector<GpuPairs> GpuMessages::plans(Peer& peer) {
  const GpuExports& known = exports(peer);
  GpuPlanInputs inputs = plan_inputs(peer);
  if (!peer.is_local()) {
    inputs.locality = GpuLocality::other_host;
    inputs.host_eager_limit = peer.plan.steps().front().up_to;
    inputs.chunks_from = network_cut_from(inputs.host_eager_limit, links_.settings().gpu_chunk);
  } else {
    inputs.locality = locality(peer);
  }
  using Whose = GpuExports::Whose;
  const auto reach = [&](Whose whose, const GpuPlanEnd& end) -> Reach {
    const std::string& why = known.why_refused(whose, export_kind_of(end.kind));
    return why.empty() ? Reach{} : std::unexpected(Reason{why});
  };
  return gpu_pairs([&](const GpuPlanEnd& from, const GpuPlanEnd& to) {
    inputs.from = from;
    inputs.to = to;
    inputs.pull = reach(Whose::peers, from);
    inputs.push = reach(Whose::own, to);
    return inputs;
  });
}

GpuLocality GpuMessages::locality(const Peer& peer) {
  const GpuExports& known = exports(peer);
  if (known.device() == cuda::Uuid{} || last_device_ == cuda::no_device) return GpuLocality::unknown;
  const auto theirs = gpus_.find(known.device());
  if (!theirs) return GpuLocality::not_visible;
  return locality_of(last_device_, *theirs, gpus_.link(last_device_, *theirs));
}

}  // namespace isthmus
