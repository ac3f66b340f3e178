// Short messages from memory of the host into GPU memory: all that have come at once are copied together.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/transfers.hpp"

namespace isthmus {

bool GpuTransfers::lands_with_others(const GpuPart& part, std::uint64_t bytes) const noexcept {
  return bytes <= GpuCopies::longest_by_kernel && part.is_one_copy() &&
         part.buffer.kind != MemoryKind::managed && !links_.job().in_process;
}

Result<> GpuTransfers::land(Request& receive) {
  if (!lands_with_others(*receive.gpu, receive.status.bytes)) return land_alone(receive);
  landings_.push_back(receive.cookie());
  receive.transfer = Request::Transfer::copy;
  return {};
}

Result<> GpuTransfers::land_alone(Request& receive) {
  reserve(1);
  const Payload arrived = Payload::of(receive.payload.data, receive.status.bytes);
  auto copy = copies_.start(receive.gpu->buffer, arrived, receive.gpu->payload, arrived.bytes);
  if (!copy) return std::unexpected(std::move(copy).error());
  add(receive, {.copy = std::move(*copy),
                .purpose = Purpose::land,
                .request = receive.cookie(),
                .peers = 0,
                .mapping = {}});
  return {};
}

/// Where memory runs out, those whose copies are not started still wait.
void GpuTransfers::start_landings() {
  std::erase_if(landings_, [this](wire::Cookie each) { return !completion_.find(each); });
  while (!landings_.empty()) {
    const auto device_of = [this](wire::Cookie each) { return completion_.find(each)->gpu->buffer.device; };
    const cuda::Device device = device_of(landings_.front());
    std::size_t count = 1;
    while (count < landings_.size() && count < GpuCopies::most_together &&
           device_of(landings_[count]) == device)
      ++count;
    if (count < GpuCopies::most_together && count == landings_.size() &&
        copies_.is_busy(device, GpuCopies::Direction::from_host))
      return;
    if (count > 1 && start_landings_together(count)) continue;
    for (; count > 0; --count) {
      Request& receive = *completion_.find(landings_.front());
      const Result<> started = land_alone(receive);
      landings_.erase(landings_.begin());
      if (started) continue;
      receive.gpu->landed = true;
      fail(receive, started.error());
    }
  }
}

bool GpuTransfers::start_landings_together(std::size_t count) {
  const auto request_of = [this](std::size_t i) -> Request& { return *completion_.find(landings_[i]); };
  std::size_t bytes = 0;
  const auto room_for = [](std::uint64_t size) { return (size + 63) / 64 * 64; };
  for (std::size_t i = 0; i < count; ++i) {
    const Request& receive = request_of(i);
    if (!copies_.can_stage_together(receive.gpu->buffer)) return false;
    bytes += room_for(receive.status.bytes);
  }
  const cuda::Device device = request_of(0).gpu->buffer.device;
  auto taken = copies_.pinned_pool(device).take(bytes);
  if (!taken || taken->size() < bytes) return false;
  const auto pinned = std::make_shared<const PinnedBuffer>(std::move(*taken));
  reserve(count);
  std::array<CopyPiece, GpuCopies::most_together> pieces;
  std::byte* at = pinned->data();
  for (std::size_t i = 0; i < count; ++i) {
    const Request& receive = request_of(i);
    std::memcpy(at, receive.payload.data, receive.status.bytes);
    pieces[i] = {receive.gpu->payload.data, at, receive.status.bytes};
    at += room_for(receive.status.bytes);
  }
  auto copy = copies_.stage_together(device, GpuCopies::Direction::from_host, {pieces.data(), count});
  if (!copy) return false;
  for (std::size_t i = 0; i < count; ++i) {
    Request& receive = request_of(i);
    add(receive, {.copy = i + 1 < count ? copy->another() : std::move(*copy),
                  .purpose = Purpose::land,
                  .request = receive.cookie(),
                  .peers = 0,
                  .mapping = {},
                  .errand = {},
                  .pinned = pinned});
  }
  landings_.erase(landings_.begin(), landings_.begin() + static_cast<std::ptrdiff_t>(count));
  return true;
}

}  // namespace isthmus
