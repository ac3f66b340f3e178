#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "gpu/memory/mapping.hpp"
#include "gpu/memory/vmm_allocation.hpp"
#include "p2p/message/message.hpp"
#include "wire/gpu.hpp"

namespace isthmus {

/// Memory of this rank's GPUs that the library keeps for messages whose own memory cannot be handed to
/// another process, and that any process can open, whatever its process id: a window for each peer, through
/// which long ones go, slots, in which short ones lie until their receiver's GPU has read them, and windows
/// on loan for collectives. Made when first needed, kept until the end, and bounded for each GPU. Besides,
/// what peers have told of their windows. One thread at a time.
class GpuWindows {
 public:
  /// Bytes of a slot.
  static constexpr std::size_t slot_bytes = std::size_t{64} << 10U;

  /// Of this rank's, for what goes to one peer.
  struct Window {
    std::unique_ptr<VmmAllocation> memory;
    UniqueFd descriptor;  ///< for a peer that fetches it itself, for as long as it may
    /// By the peer's device: whether it has opened it. What is not there has not answered yet.
    std::map<std::uint16_t, bool> is_open{};

    [[nodiscard]] std::span<std::byte> span() const noexcept { return {memory->data(), memory->size()}; }
  };

  /// A slot, or a window of a collective, on loan. Must not outlive the windows.
  class Slot {
   public:
    Slot() = default;
    /// `data`: goes back to `free`.
    Slot(std::vector<std::byte*>& free, std::byte* data) : free_(&free), data_(data) {}
    Slot(Slot&& other) noexcept
        : free_(std::exchange(other.free_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}
    Slot& operator=(Slot&& other) noexcept {
      std::swap(free_, other.free_);
      std::swap(data_, other.data_);
      return *this;
    }
    ~Slot() {
      if (free_) free_->push_back(data_);
    }
    [[nodiscard]] std::byte* data() const noexcept { return data_; }

   private:
    std::vector<std::byte*>* free_ = nullptr;
    std::byte* data_ = nullptr;
  };

  /// `limit`: bytes of each GPU. `peers`: how many this rank may have on its host.
  GpuWindows(cuda::PrimaryContexts& contexts, const GpuList& gpus, std::uint64_t limit, std::size_t peers);
  GpuWindows(const GpuWindows&) = delete;
  GpuWindows& operator=(const GpuWindows&) = delete;
  ~GpuWindows() = default;

  /// The window of a device for what goes to a peer. Fails where the limit or the device has not that much.
  Result<Window*> of(PeerId peer, cuda::Device device);
  /// A free slot of a device, if there is one or memory for slots.
  std::optional<Slot> take_slot(cuda::Device device);
  /// A window of a device for a collective, of `window_bytes` bytes. Fails as `of` does.
  Result<Slot> lend(cuda::Device device);
  [[nodiscard]] std::size_t window_bytes() const noexcept { return window_bytes_; }
  /// What the slots of a device lie in, once somebody has looked: to ask the driver takes 0.1 us each time.
  [[nodiscard]] std::optional<Buffer>& buffer_of_slots(cuda::Device device) { return slots_[device].buffer; }

  /// A window of a peer that a device of this process reads from; null until `keep` has been told.
  [[nodiscard]] std::shared_ptr<const Mapping> opened(PeerId peer, std::uint32_t number,
                                                      cuda::Device local) const;
  void keep(PeerId peer, std::uint32_t number, cuda::Device local, std::shared_ptr<const Mapping> mapping);

 private:
  struct Slots {
    std::unique_ptr<VmmAllocation> memory;
    std::vector<std::byte*> free;
    bool is_refused = false;
    std::optional<Buffer> buffer;
  };
  struct Lent {
    std::vector<std::unique_ptr<VmmAllocation>> all;
    std::vector<std::byte*> free;
  };
  using Reader = std::pair<std::uint32_t, cuda::Device>;

  Result<std::unique_ptr<VmmAllocation>> take(cuda::Device device, std::size_t bytes);

  cuda::PrimaryContexts& contexts_;
  const GpuList& gpus_;
  const std::uint64_t limit_;
  const std::size_t window_bytes_;
  std::map<cuda::Device, std::uint64_t> taken_;  ///< bytes
  std::map<std::pair<PeerId, cuda::Device>, Window> windows_;
  std::map<cuda::Device, Slots> slots_;
  std::map<cuda::Device, Lent> lent_;
  std::map<std::pair<PeerId, Reader>, std::shared_ptr<const Mapping>> opened_;
};

}  // namespace isthmus
