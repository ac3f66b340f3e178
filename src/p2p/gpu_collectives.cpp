// What collectives between GPUs need of the engine's GPU memory.
#include "p2p/engine.hpp"
#include "p2p/gpu.hpp"

namespace isthmus {

Result<GpuMessages::Opened> GpuMessages::open(PeerId peer, const wire::GpuExport& from, cuda::Device local,
                                              UniqueFd descriptor) {
  if (engine_.job_.in_process)  // all ranks of the job are in this process
    return Opened{.mapping = {}, .base = reinterpret_cast<std::byte*>(from.memory.base)};
  exports(engine_.peer(peer)).heard_from(from.memory.exporter);
  exports(engine_.peer(peer)).keep(from.memory.allocation, std::move(descriptor));
  auto mapping = map(engine_.peer(peer), from, local);
  if (!mapping) return std::unexpected(std::move(mapping).error());
  return Opened{.mapping = *mapping, .base = (*mapping)->base()};
}

PinnedPool& GpuMessages::pinned_pool(cuda::Device device) {
  // For one collective across hosts, and for stand-ins of another one within it.
  constexpr PinnedPool::Limits limits{.most = std::size_t{128} << 20U};
  return pinned_.try_emplace(device, contexts_, device, limits).first->second;
}

void GpuMessages::handed(PeerId peer, std::uint64_t allocation) {
  exports(engine_.peer(peer)).handed(allocation);
}

void GpuMessages::note(PeerId peer, const Error& why) {
  engine_.note_gpu_reason(engine_.peer(peer), why, true);
}

}  // namespace isthmus
