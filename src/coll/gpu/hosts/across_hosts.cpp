#include "coll/gpu/hosts/across_hosts.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "coll/call/host.hpp"
#include "coll/context/carry.hpp"
#include "coll/gpu/between.hpp"
#include "p2p/protocol/gpu/network_cut.hpp"

namespace isthmus::coll {
namespace {

/// Pinned for one segment, at most.
constexpr std::uint64_t largest_slot = std::uint64_t{8} << 20U;
/// What a segment's length is a multiple of.
constexpr std::uint64_t segment_grain = 4096;

int smallest_host(const Hierarchy& hosts) {
  int least = hosts.members(0);
  for (int host = 1; host < hosts.count(); ++host)
    least = std::min(least, hosts.members(host));
  return least;
}

bool has_kernel(GpuMessages& gpu, cuda::Device device, const Reduction& what, int members) {
  return static_cast<std::size_t>(members) <= GpuKernels::most_sources && what.op->is_predefined() &&
         GpuKernels::can_reduce(*what.op, *what.type) && gpu.copies().kernels().trouble(device).empty();
}

}  // namespace

bool HostsAgreement::locate(GpuMessages& gpu, const HostsCall& call, Buffer& near) {
  if (footing_.avoids_hosts() || call.barred || footing_.hosts()->local().size() > flat_ranks) return false;
  for (const Payload* payload : {&call.send, &call.receive}) {
    if (payload->bytes == 0) continue;
    const auto found = gpu.copies().find(*payload);
    // What is wrong with it, the stand-ins will say.
    if (!found || !*found || payload->type || !(*found)->is_whole() || (*found)->is_host_readable())
      return false;
    if (near.device != cuda::no_device && near.device != (*found)->device) return false;
    if (!is_in_reach(gpu, comm_.peer(comm_.rank()), **found)) return false;
    near = **found;
  }
  return near.device != cuda::no_device;
}

std::optional<AcrossHosts> HostsAgreement::prepare(const HostsCall& call) {
  if (!comm_.engine().uses_cuda()) return std::nullopt;
  GpuMessages* const gpu = comm_.engine().gpu();
  AcrossHosts mine;
  if (!gpu || !locate(*gpu, call, mine.near_)) return std::nullopt;
  const Hierarchy& hosts = *footing_.hosts();
  if (call.reduces && !has_kernel(*gpu, mine.device(), *call.reduces, hosts.local().size()))
    return std::nullopt;
  mine.comm_ = &comm_;
  mine.hosts_ = &hosts;
  mine.gpu_ = gpu;
  mine.carriers_ = smallest_host(hosts);
  const std::uint64_t chunk = comm_.engine().settings().gpu_chunk;
  mine.segment_ =
      std::max((chunk != 0 ? chunk : default_network_chunk) & ~(segment_grain - 1), segment_grain);
  while (mine.segment_ > segment_grain && call.slot_bytes(mine.segment_, hosts.count()) > largest_slot)
    mine.segment_ = (mine.segment_ / 2) & ~(segment_grain - 1);
  if (call.temporary != 0) {
    auto taken = gpu->copies().device_pool().take(mine.device(), call.temporary);
    if (!taken) {
      gpu->note(comm_.peer(comm_.rank()), taken.error());
      return std::nullopt;
    }
    mine.temporary_ = std::move(*taken);
  }
  if (!mine.carries() && !call.all_carry) return mine;
  for (int host = 0; mine.carries() && host < hosts.count(); ++host)
    mine.slice_.push_back(hosts.ranks_of(host)[static_cast<std::size_t>(hosts.local().rank())]);
  const std::uint64_t room = call.slot_bytes(mine.segment_, hosts.count());
  while (mine.slots_.size() < AcrossHosts::depth) {
    auto slot = gpu->copies().pinned_pool(mine.device()).take(room);
    if (!slot || slot->size() < room) {
      const Error little(ErrorClass::no_mem, "too little memory of the host can be pinned for collectives");
      gpu->note(comm_.peer(comm_.rank()), slot ? little : slot.error());
      return std::nullopt;
    }
    mine.slots_.push_back(std::move(*slot));
  }
  return mine;
}

Result<std::optional<AcrossHosts>> HostsAgreement::ask(const HostsCall& call) {
  auto mine = prepare(call);
  // The shortest segment that any member wants, which all have memory for; 0: some member cannot.
  auto agreed = least_of(mine ? mine->segment_ : 0);
  if (!agreed) return std::unexpected(std::move(agreed).error());
  footing_.patience().heard(*agreed != 0);
  if (*agreed == 0 || !mine) return std::nullopt;
  mine->segment_ = *agreed;
  return mine;
}

Result<std::uint64_t> HostsAgreement::least_of(std::uint64_t mine) {
  if (comm_.is_broken()) return std::unexpected(comm_.why_broken());
  std::uint64_t least = 0;
  const Reduction what{1, &Datatype::basic(Basic::uint64), &Op::predefined(OpCode::min)};
  if (Result<> agreed = host::allreduce(&mine, &least, what, comm_); !agreed)
    return std::unexpected(carry(comm_, std::move(agreed)).error());
  return least;
}

Result<> HostsAgreement::end(const AcrossHosts& all, Result<> done, const GpuMessages::Collectives& before) {
  GpuMessages::Collectives& counts = all.gpu().collectives;
  const bool by_host = counts.by_host != before.by_host;
  // Where GPUs of this host do not reach each other, stand-ins for the whole copy less.
  if (by_host) footing_.avoid_hosts();
  counts = before;
  ++(by_host ? counts.by_host : counts.across_hosts);
  auto met = least_of(done ? 1 : 0);
  if (!done) return done;
  if (!met) return std::unexpected(std::move(met).error());
  if (*met == 0) return fail(ErrorClass::other, "the GPU of another rank could not do its part");
  return {};
}

}  // namespace isthmus::coll
