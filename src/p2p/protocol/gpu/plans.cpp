#include "p2p/protocol/gpu/plans.hpp"

#include <string_view>
#include <utility>

#include "p2p/gpu_copy/copies.hpp"
#include "p2p/gpu_copy/couriers.hpp"
#include "p2p/gpu_memory/export_table.hpp"
#include "p2p/gpu_memory/window_table.hpp"
#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/gpu_network.hpp"
#include "p2p/protocol/gpu/network_cut.hpp"

namespace isthmus {

GpuPlanned& GpuPlans::planned(const Peer& peer, const GpuPlanKey& key) {
  return plans_.find(key, [&] { return gpu_plan(facts(peer, key)); });
}

GpuPlanInputs GpuPlans::facts(const Peer& peer, const GpuPlanKey& key) {
  const Settings& settings = around_.links.settings();
  const auto reach = [&](bool is_refused, GpuExports::Whose whose, const GpuPlanEnd& end) -> Reach {
    if (!is_refused) return {};
    const std::string& why = around_.exports.of(peer).why_refused(whose, export_kind_of(end.kind));
    return std::unexpected(Reason{why.empty() ? "this memory has been refused before" : why});
  };
  const auto bounce = [&]() -> Reach {
    if (!around_.windows.may_serve()) return std::unexpected(Reason{"ISTHMUS_GPU_BOUNCE is 0"});
    if (key.is_bounce_refused) return std::unexpected(Reason{around_.exports.of(peer).why_no_window()});
    return {};
  };
  return {.from = key.from,
          .to = key.to,
          .locality = key.locality,
          .push = reach(key.is_push_refused, GpuExports::Whose::own, key.to),
          .pull = reach(key.is_pull_refused, GpuExports::Whose::peers, key.from),
          .bounce = bounce(),
          .network = network_reach(peer),
          .path = settings.gpu_path,
          .host_eager_limit = key.host_eager_limit,
          .gpu_eager_limit = key.gpu_eager_limit,
          .chunks_from = peer.is_local() ? 0 : network_cut_from(key.host_eager_limit, settings.gpu_chunk),
          .push_from = settings.gpu_push_from,
          .direct_limit = settings.gpu_direct_limit,
          .courier_limit = key.courier_limit,
          .one_process = around_.links.shares_process(peer),
          .many_under_way = key.many_under_way};
}

/// As `network_reach`, without the reason, which takes memory.
bool GpuPlans::has_network(const Peer& peer) const {
  if (peer.is_local() && around_.links.settings().gpu_path != GpuPathSetting::network) return false;
  return network_reach(peer).has_value();
}

Reach GpuPlans::network_reach(const Peer& peer) const {
  if (peer.is_local() && around_.links.settings().gpu_path != GpuPathSetting::network)
    return std::unexpected(Reason{"nobody has asked for it"});
  if (!around_.network) return std::unexpected(Reason{"all ranks share memory"});
  return around_.network->gpu_reach();
}

GpuLocality GpuPlans::locality(cuda::Device mine, const cuda::Uuid& theirs) const {
  if (theirs == cuda::Uuid{} || mine == cuda::no_device) return GpuLocality::unknown;
  const auto known = around_.gpus.find(theirs);
  if (!known) return GpuLocality::not_visible;
  return locality_of(mine, *known, around_.gpus.link(mine, *known));
}

GpuLocality GpuPlans::locality(const Peer& peer) {
  return locality(around_.copies.last_device(), around_.exports.of(peer).device());
}

GpuLocality GpuPlans::place_of(const Peer& peer) {
  return peer.is_local() ? locality(peer) : GpuLocality::other_host;
}

/// Where the matched `receive` wants what lies on the GPU `theirs` of the peer, if it lies on one, and which
/// memory the two sides have refused to open.
void GpuPlans::describe_target(const Peer& peer, const cuda::Uuid& theirs, const Request& receive,
                               GpuPlanKey& key) {
  const GpuExports& known = around_.exports.of(peer);
  const cuda::Device device = receive.gpu ? receive.gpu->buffer.device : around_.copies.last_device();
  key.locality = locality(device, theirs);
  key.is_bounce_refused = known.are_windows_refused(theirs, device);
  if (!receive.gpu) {
    key.to = {.kind = receive.memory, .has_gaps = receive.payload.type != nullptr};
    return;
  }
  key.to = end_of(*receive.gpu);
  key.is_push_refused = known.is_refused(receive.gpu->buffer.allocation);
}

/// What is the same whatever the memories.
GpuPlanKey GpuPlans::key_of(const Peer& peer, GpuLocality locality) {
  return {.from = {},
          .to = {},
          .locality = locality,
          .many_under_way = peer.gpu_many,
          .has_network = has_network(peer),
          .host_eager_limit = peer.eager_limit,
          .gpu_eager_limit = static_cast<std::uint32_t>(around_.links.settings().gpu_eager_limit)};
}

GpuPlanKey GpuPlans::key_of(Peer& peer, const Request& receive, const GpuSource& source) {
  if (source.is_on_host) return key_from_host(peer, receive, true);
  const Export& from = source.memory.memory;
  peer.gpu_many = source.latency_bound == 0;
  GpuPlanKey key = key_of(peer, GpuLocality::unknown);
  const bool is_told = from.exporter != 0;
  key.from = {.kind = is_told ? memory_kind_of(from.kind) : MemoryKind::managed,
              .has_pages = true,
              .has_gaps = source.shape.level_count != 0};
  key.is_pull_refused = around_.exports.of(peer).is_unreachable(from.allocation);
  describe_target(peer, is_told ? from.device : around_.exports.of(peer).device(), receive, key);
  if (receive.gpu) key.courier_limit = around_.couriers.limit(receive.gpu->buffer.device, !peer.gpu_many);
  return key;
}

GpuPlanKey GpuPlans::key_from_host(const Peer& peer, const Request& receive, bool is_pinned) {
  GpuPlanKey key = key_of(peer, GpuLocality::unknown);
  key.from = {.kind = is_pinned ? MemoryKind::pinned : MemoryKind::pageable, .has_pages = true};
  describe_target(peer, around_.exports.of(peer).device(), receive, key);
  return key;
}

const Plan& GpuPlans::to_host_of(const Peer& peer, const GpuPart& part) {
  GpuPlanKey key = key_of(peer, GpuLocality::other_host);
  key.from = key.to = end_of(part);
  return of(peer, key);
}

const Plan& GpuPlans::from_host_of(const Peer& peer, const GpuPart& part) {
  GpuPlanKey key = key_of(peer, GpuLocality::other_host);
  key.from = {.kind = MemoryKind::pageable, .has_pages = true};
  key.to = end_of(part);
  return of(peer, key);
}

GpuPlanEnd GpuPlans::end_of(const GpuPart& part) noexcept {
  return {.kind = part.buffer.kind,
          .has_pages = true,
          .has_gaps = !part.is_one_copy(),
          .is_foreign = !part.buffer.is_own};
}

void GpuPlans::note_missing_loopback(Peer& peer) const {
  if (around_.links.settings().gpu_path != GpuPathSetting::network) return;
  if (const Reach network = network_reach(peer); !network)
    around_.links.note_gpu_reason(peer, Error(ErrorClass::other, network.error().text), true);
}

void GpuPlans::note(Peer& peer, const GpuPlanKey& key) {
  note_missing_loopback(peer);
  if (key.locality != GpuLocality::not_visible && key.locality != GpuLocality::no_peer_access) return;
  if (const std::string_view why = why_not(facts(peer, key), Protocol::gpu_pull); !why.empty())
    around_.links.note_gpu_reason(peer, Error(ErrorClass::other, std::string(why)), true);
}

std::set<std::string> GpuPlans::refusals(const Peer& peer) {
  std::set<std::string> all;
  for (const ExportKind kind : {ExportKind::legacy, ExportKind::vmm, ExportKind::pool})
    if (const std::string& why = around_.exports.of(peer).why_refused(GpuExports::Whose::peers, kind);
        !why.empty())
      all.insert(why);
  // Of what could be opened: where the GPUs are, and what is set.
  if (const std::string_view why = why_not(facts(peer, key_of(peer, place_of(peer))), Protocol::gpu_pull);
      !why.empty())
    all.emplace(why);
  return all;
}

std::vector<GpuPairs> GpuPlans::pairs(const Peer& peer) {
  const GpuExports& known = around_.exports.of(peer);
  using Whose = GpuExports::Whose;
  const auto is_refused = [&](Whose whose, const GpuPlanEnd& end) {
    return !known.why_refused(whose, export_kind_of(end.kind)).empty();
  };
  GpuPlanKey key = key_of(peer, place_of(peer));
  return gpu_pairs([&](const GpuPlanEnd& from, const GpuPlanEnd& to) {
    key.from = from;
    key.to = to;
    key.is_pull_refused = is_refused(Whose::peers, from);
    key.is_push_refused = is_refused(Whose::own, to);
    key.is_bounce_refused = known.are_windows_refused(known.device(), around_.copies.last_device());
    key.courier_limit =
        to.is_on_gpu() ? around_.couriers.limit(around_.copies.last_device(), !peer.gpu_many) : 0;
    return std::pair(of(peer, key), facts(peer, key));
  });
}

}  // namespace isthmus
