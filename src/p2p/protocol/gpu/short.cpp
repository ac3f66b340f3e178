// Short messages in GPU memory: by a courier that waits on the receiver's GPU, and by the processor's own
// loads and stores.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "gpu/driver/cuda_error.hpp"
#include "p2p/gpu_copy/couriers.hpp"
#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/messages.hpp"

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
  links_.region().block(links_.slot()).gpu.store(hash_of(found->uuid), std::memory_order_release);
}

bool GpuMessages::is_alone_on(cuda::Device device) const noexcept {
  const auto& gpus = gpus_.gpus();
  const auto found = std::ranges::find(gpus, device, &Gpu::ordinal);
  if (found == gpus.end()) return false;
  const std::uint64_t mine = hash_of(found->uuid);
  for (std::uint32_t slot = 0; slot < links_.job().members.size(); ++slot)
    if (slot != links_.slot() && links_.region().block(slot).gpu.load(std::memory_order_acquire) == mine)
      return false;
  return true;
}

bool GpuMessages::has_to_itself(cuda::Device device) noexcept {
  publish_gpu(device);
  return is_alone_on(device);
}

bool GpuMessages::may_order(cuda::Device device, std::uint64_t bytes) {
  return couriers_->wants(bytes, true) && may_send_courier(device);
}

GpuErrand GpuMessages::take_order(cuda::Device device, const kernel::MeetOrder& order, const std::byte* table,
                                  std::uint64_t id) {
  return couriers_->take(device, order, table, id);
}

bool GpuMessages::may_send_courier(cuda::Device device) {
  if (!couriers_->is_worth_it(device)) return false;
  return !couriers_->should_look_around(device) || is_alone_on(device);
}

void GpuMessages::lend_slot(Peer& peer, GpuPart& part) {
  const cuda::Device device = part.buffer.device;
  const std::uint64_t bytes = part.payload.bytes;
  const bool fits = part.is_one_copy() && bytes <= GpuWindows::slot_bytes && windows_.may_serve() &&
                    couriers_->wants(bytes, peer.workload.workload() == Workload::latency);
  // It has been looked at in this very call.
  if (!fits || !reaches(copies_.contexts(), part.buffer) || !may_send_courier(device)) return;
  auto lent = windows_.lend_slot(device);
  if (!lent) return;
  const auto errand = couriers_->take(device, lent->slot.data(), part.payload.data, bytes);
  if (!errand) return;
  auto fate = Courier::Fate::waiting;
  while (fate == Courier::Fate::waiting) {
    const auto seen = errand->courier->look(errand->number);
    if (!seen) return;  // the next way says why
    fate = *seen;
  }
  if (fate != Courier::Fate::delivered) return;
  part.buffer = lent->buffer;
  part.buffer.bytes = bytes;
  part.payload = Payload::of(lent->slot.data(), bytes);
  part.slot = std::move(lent->slot);
}

bool GpuMessages::begin_by_courier(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from) {
  const wire::GpuExport& memory = from.memory;
  const GpuPart& part = *receive.gpu;
  const bool fits = part.is_one_copy() && from.shape.level_count == 0;
  // Whoever tries the next way says why this one fails.
  if (!fits || !reaches(copies_.contexts(), part.buffer) || !copies_.check_still_there(part.buffer))
    return false;
  if (!may_send_courier(part.buffer.device)) return false;
  auto reached = exports_.reach(peer, memory, part.buffer.device);
  if (!reached) return false;
  transfers_.reserve(1);
  const auto errand = couriers_->take(part.buffer.device, part.payload.data, reached->address, receive.limit);
  if (!errand) return false;
  count_received(peer, receive, Protocol::gpu_courier, receive.limit);
  transfers_.add(receive, {PendingCopy(), GpuTransfers::Purpose::pull, receive.cookie(), sender,
                           std::move(reached->mapping), errand});
  return true;
}

// --- by the processor

std::optional<Request*> GpuMessages::send_by_processor(const Target& target, const Payload& payload,
                                                       SendMode mode, Start start, const Buffer& buffer) {
  if (gdr_.is_missing() || payload.type || payload.bytes > most_loaded || buffer.bytes != payload.bytes)
    return std::nullopt;
  auto loaded = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
  if (!gdr_.load(loaded.get(), buffer)) return std::nullopt;
  Request* send = sends_.start_cpu_send(target, Payload::of(loaded.get(), payload.bytes), mode, start);
  if (send) send->staging = std::move(loaded);
  return send;
}

bool GpuMessages::land_by_processor(const GpuPart& part, const Payload& arrived) {
  if (gdr_.is_missing() || part.payload.type || arrived.bytes > most_stored ||
      !copies_.check_still_there(part.buffer))
    return false;
  Buffer landing = part.buffer;
  landing.bytes = arrived.bytes;
  return gdr_.store(landing, arrived.data);
}

std::string GpuMessages::explain_short() const {
  std::string text = couriers_->explain();
  if (copies_.started_together() > 0)
    text += "    " + std::to_string(copies_.started_together()) + " copies started together with others\n";
  const GdrMappings::Counts& counts = gdr_.counts();
  if (counts.loads + counts.stores > 0)
    text += "    by GDRCopy: " + std::to_string(counts.loads) + " messages loaded from GPU memory, " +
            std::to_string(counts.stores) + " stored there\n";
  if (!gdr_.trouble().empty()) text += "    no GDRCopy: " + gdr_.trouble() + "\n";
  return text;
}

}  // namespace isthmus
