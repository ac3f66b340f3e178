#include "p2p/message/gpu_windows.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace isthmus {
namespace {

/// What the driver gives at least.
constexpr std::size_t page = std::size_t{2} << 20U;
/// A window takes an even share of what is left beside the slots, between these. More than 16 MiB was
/// not measured: one half is filled while the other is read.
constexpr std::size_t least_window = page;
constexpr std::size_t most_window = std::size_t{16} << 20U;
/// So that a job of two ranks leaves something for those that come later.
constexpr std::size_t least_peers = 3;

std::size_t share_of(std::uint64_t limit, std::size_t peers) {
  const std::uint64_t left = limit > page ? limit - page : 0;
  const std::uint64_t share = left / std::max(peers, least_peers) / page * page;
  return std::clamp(static_cast<std::size_t>(std::min<std::uint64_t>(share, most_window)), least_window,
                    most_window);
}

}  // namespace

GpuWindows::GpuWindows(cuda::PrimaryContexts& contexts, const GpuList& gpus, std::uint64_t limit,
                       std::size_t peers)
    : contexts_(contexts), gpus_(gpus), limit_(limit), window_bytes_(share_of(limit, peers)) {}

Result<std::unique_ptr<VmmAllocation>> GpuWindows::take(cuda::Device device, std::size_t bytes) {
  std::uint64_t& taken = taken_[device];
  if (bytes > limit_ || taken > limit_ - bytes)
    return fail(ErrorClass::no_mem, "the " + std::to_string(limit_ >> 20U) + " MiB of GPU " +
                                        std::to_string(device) +
                                        " that the library keeps for such messages (ISTHMUS_GPU_BOUNCE) are "
                                        "in use");
  auto memory = VmmAllocation::make(contexts_, gpus_, device, bytes);
  if (memory) taken += (*memory)->size();
  return memory;
}

Result<GpuWindows::Window*> GpuWindows::of(PeerId peer, cuda::Device device) {
  Window& window = windows_[{peer, device}];
  if (!window.memory) {
    auto memory = take(device, window_bytes_);
    if (!memory) return std::unexpected(std::move(memory).error());
    window.memory = std::move(*memory);
  }
  return &window;
}

std::optional<GpuWindows::Slot> GpuWindows::take_slot(cuda::Device device) {
  Slots& slots = slots_[device];
  if (!slots.memory && !slots.is_refused) {
    slots.free.reserve(page / slot_bytes);
    auto memory = take(device, page);
    slots.is_refused = !memory;
    if (memory) {
      slots.memory = std::move(*memory);
      for (std::size_t at = 0; at + slot_bytes <= page; at += slot_bytes)
        slots.free.push_back(slots.memory->data() + at);
    }
  }
  if (slots.free.empty()) return std::nullopt;
  std::byte* const data = slots.free.back();
  slots.free.pop_back();
  return Slot(slots.free, data);
}

Result<GpuWindows::Slot> GpuWindows::lend(cuda::Device device) {
  Lent& lent = lent_[device];
  if (lent.free.empty()) {
    lent.all.reserve(lent.all.size() + 1);
    lent.free.reserve(lent.all.size() + 1);
    auto memory = take(device, window_bytes_);
    if (!memory) return std::unexpected(std::move(memory).error());
    lent.all.push_back(std::move(*memory));
    lent.free.push_back(lent.all.back()->data());
  }
  std::byte* const data = lent.free.back();
  lent.free.pop_back();
  return Slot(lent.free, data);
}

std::shared_ptr<const Mapping> GpuWindows::opened(PeerId peer, std::uint32_t number,
                                                  cuda::Device local) const {
  const auto found = opened_.find({peer, {number, local}});
  return found == opened_.end() ? nullptr : found->second;
}

void GpuWindows::keep(PeerId peer, std::uint32_t number, cuda::Device local,
                      std::shared_ptr<const Mapping> mapping) {
  opened_[{peer, {number, local}}] = std::move(mapping);
}

}  // namespace isthmus
