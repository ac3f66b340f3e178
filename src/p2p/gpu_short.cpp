// Short messages in GPU memory: by a courier that waits on the receiver's GPU, and by the processor's own
// loads and stores.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "memory/cuda_error.hpp"
#include "p2p/engine.hpp"
#include "p2p/gpu.hpp"
#include "p2p/gpu_couriers.hpp"

namespace isthmus {
namespace {

/// Assumed, because there was no GDRCopy where it could be measured: a load from a GPU's memory goes over
/// PCIe and back and stores are written together, so that only the shortest messages are loaded.
constexpr std::uint64_t most_loaded = 256;
constexpr std::uint64_t most_stored = std::uint64_t{8} * 1024;

/// What a rank publishes of the GPU that it uses: never 0.
std::uint64_t hash_of(const cuda::Uuid& uuid) noexcept {
  std::uint64_t words[2];
  static_assert(sizeof words == sizeof uuid);
  std::memcpy(words, &uuid, sizeof words);
  return (words[0] ^ (words[1] << 1U)) | 1U;
}

}  // namespace

// --- by courier

void GpuMessages::publish_gpu(cuda::Device device) noexcept {
  if (device == published_ || device < 0) [[likely]]
    return;
  published_ = device;
  const auto& gpus = gpus_.gpus();
  const auto found = std::ranges::find(gpus, device, &Gpu::ordinal);
  if (found == gpus.end()) return;
  engine_.region_.block(engine_.slot_).gpu.store(hash_of(found->uuid), std::memory_order_release);
}

/// Whether no other rank of this host uses it: two processes on one GPU take turns, and a kernel that waits
/// would wait for whole turns in vain.
bool GpuMessages::is_alone_on(cuda::Device device) const noexcept {
  const auto& gpus = gpus_.gpus();
  const auto found = std::ranges::find(gpus, device, &Gpu::ordinal);
  if (found == gpus.end()) return false;
  const std::uint64_t mine = hash_of(found->uuid);
  for (std::uint32_t slot = 0; slot < engine_.job_.members.size(); ++slot)
    if (slot != engine_.slot_ && engine_.region_.block(slot).gpu.load(std::memory_order_acquire) == mine)
      return false;
  return true;
}

bool GpuMessages::begin_by_courier(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from) {
  const wire::GpuExport& memory = from.memory;
  if (!receive.gpu || engine_.job_.in_process || engine_.settings_.gpu_path != GpuPathSetting::automatic)
    return false;
  const GpuPart& part = *receive.gpu;
  const auto theirs = gpus_.find(memory.memory.device);
  const bool fits = part.is_one_copy() && part.buffer.kind != MemoryKind::managed &&
                    from.shape.level_count == 0 && memory.memory.exporter != 0 && theirs &&
                    gpus_.link(part.buffer.device, *theirs) == PeerLink::nvlink;
  // Whoever tries the next way says why this one fails.
  if (!fits || !contexts_.reaches(part.buffer) || !check_still_there(part.buffer)) return false;
  if (!couriers_->is_worth_it(part.buffer.device)) return false;
  if (couriers_->should_look_around(part.buffer.device) && !is_alone_on(part.buffer.device)) return false;
  auto reached = reach(peer, memory, part.buffer.device);
  if (!reached) return false;
  const auto errand = couriers_->take(part.buffer.device, part.payload.data, reached->address, receive.limit);
  if (!errand) return false;
  peer.traffic.add_received(Protocol::gpu_courier, receive.limit);
  add(receive, {PendingCopy(), Purpose::pull, receive.cookie(), sender, std::move(reached->mapping), errand});
  return true;
}

Result<bool> GpuMessages::is_over(Running& running) {
  if (!running.errand) return running.copy.is_done();
  GpuErrand& errand = *running.errand;
  if (!contexts_.is_alive(errand.device, errand.life))
    return cuda::fail_after_reset(errand.device, CopyEngine::during_copy);
  auto fate = errand.courier->look(errand.number);
  if (!fate) return std::unexpected(std::move(fate).error());
  if (*fate != Courier::Fate::returned) return *fate == Courier::Fate::delivered;
  auto copy = engine_on(errand.device).start(errand.to, errand.from, errand.bytes);
  if (!copy) return std::unexpected(std::move(copy).error());
  running.copy = std::move(*copy);
  running.errand.reset();
  return false;
}

// --- by the processor

std::optional<Request*> GpuMessages::send_by_processor(const Target& target, const Payload& payload,
                                                       SendMode mode, Start start, const Buffer& buffer) {
  if (gdr_.is_missing() || payload.type || payload.bytes > most_loaded || buffer.bytes != payload.bytes)
    return std::nullopt;
  auto loaded = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
  if (!gdr_.load(loaded.get(), buffer)) return std::nullopt;
  Request* send = engine_.start_host_send(target, Payload::of(loaded.get(), payload.bytes), mode, start);
  if (send) send->staging = std::move(loaded);
  return send;
}

bool GpuMessages::land_by_processor(const GpuPart& part, const Payload& arrived) {
  if (gdr_.is_missing() || part.payload.type || arrived.bytes > most_stored ||
      !check_still_there(part.buffer))
    return false;
  Buffer landing = part.buffer;
  landing.bytes = arrived.bytes;
  return gdr_.store(landing, arrived.data);
}

std::string GpuMessages::explain_short() const {
  std::string text = couriers_->explain();
  if (started_together_ > 0)
    text +=
        "    between GPUs: " + std::to_string(started_together_) + " copies started together with others\n";
  const GdrMappings::Counts& counts = gdr_.counts();
  if (counts.loads + counts.stores > 0)
    text += "    by GDRCopy: " + std::to_string(counts.loads) + " messages loaded from GPU memory, " +
            std::to_string(counts.stores) + " stored there\n";
  if (!gdr_.trouble().empty()) text += "    no GDRCopy: " + gdr_.trouble() + "\n";
  return text;
}

}  // namespace isthmus
