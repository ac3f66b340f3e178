// What collectives between GPUs need of the engine's GPU memory.
#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus {

Result<GpuMessages::Opened> GpuMessages::open(PeerId peer, const wire::GpuExport& from, cuda::Device local,
                                              UniqueFd descriptor) {
  if (links_.job().in_process)  // all ranks of the job are in this process
    return Opened{.mapping = {}, .base = reinterpret_cast<std::byte*>(from.memory.base)};
  if (!is_exporter(links_.peer(peer), from.memory.exporter))
    return isthmus::fail(ErrorClass::intern, "it names GPU memory of another process as its own");
  exports(links_.peer(peer)).heard_from(from.memory);
  exports(links_.peer(peer)).keep(from.memory.allocation, std::move(descriptor));
  auto mapping = map(links_.peer(peer), from, local);
  if (!mapping) return std::unexpected(std::move(mapping).error());
  return Opened{.mapping = *mapping, .base = (*mapping)->base()};
}

Result<GpuMessages::LentWindow> GpuMessages::lend_window(cuda::Device device) {
  auto slot = windows_.lend(device);
  if (!slot) return std::unexpected(std::move(slot).error());
  auto buffer = copies_.look(Payload::of(slot->data(), windows_.window_bytes()));
  if (!buffer) return std::unexpected(std::move(buffer).error());
  return LentWindow{.slot = std::move(*slot), .buffer = *buffer};
}

void GpuMessages::handed(PeerId peer, std::uint64_t allocation) {
  exports(links_.peer(peer)).handed(allocation);
}

void GpuMessages::note(PeerId peer, const Error& why) {
  links_.note_gpu_reason(links_.peer(peer), why, true);
}

}  // namespace isthmus
