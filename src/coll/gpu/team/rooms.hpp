#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "gpu/copy/queue.hpp"
#include "gpu/memory/device_pool.hpp"
#include "gpu/memory/mapping.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "kernels/body/order.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus::coll {

/// By what the GPUs of a team's members meet in short collectives (kernels/body/order.hpp): a room in the
/// memory of each, which all others have open, and the orders that this member gives its own GPU, one at a
/// time. A room is 32 KiB for each member.
class GpuRooms {
 public:
  /// The room of this member, empty, and nobody else's yet. `gpu` must outlive it.
  static Result<std::unique_ptr<GpuRooms>> make(GpuMessages& gpu, DevicePool& pool, GpuQueue& queue,
                                                cuda::Device device, int rank, int members);
  GpuRooms(const GpuRooms&) = delete;
  GpuRooms& operator=(const GpuRooms&) = delete;
  ~GpuRooms() = default;

  /// What the others are to open.
  [[nodiscard]] Payload own() const noexcept { return Payload::of(room_.data(), room_bytes_); }
  void open(int member, std::byte* here, std::shared_ptr<const Mapping> mapping);
  /// All rooms are open.
  Result<> complete(GpuQueue& queue);

  [[nodiscard]] cuda::Device device() const noexcept { return device_; }
  [[nodiscard]] bool is_alive() const noexcept { return contexts().is_alive(device_, room_.life()); }

  /// Whether a courier is out, or worth it, for the next order of so many bytes. Counts it.
  [[nodiscard]] bool may_use_courier(std::uint64_t bytes) { return gpu_.may_order(device_, bytes); }
  /// Gives this member's part to the GPU: to the courier, or by a kernel on the queue. Every member calls it
  /// alike, after all have said that they will.
  Result<> begin(kernel::MeetOrder order, bool by_courier, GpuQueue& queue);
  /// Whether the GPU has done it; fails if it cannot.
  Result<bool> is_done(GpuQueue& queue);
  /// Nobody waits any more, in this round or in later ones.
  void end() noexcept;

 private:
  /// Words of pinned memory.
  struct Words {
    alignas(64) std::uint64_t ended;  ///< by the host
    alignas(64) std::uint64_t done;   ///< by a kernel that is no courier: the last round
  };

  GpuRooms(GpuMessages& gpu, DeviceBuffer room, PinnedBuffer pinned, cuda::Device device)
      : gpu_(gpu), device_(device), room_(std::move(room)), pinned_(std::move(pinned)) {}
  [[nodiscard]] cuda::PrimaryContexts& contexts() const noexcept { return gpu_.copies().contexts(); }
  [[nodiscard]] Words& words() const noexcept;
  [[nodiscard]] std::byte* table() const noexcept { return room_.data() + room_bytes_; }
  Result<> launch(GpuQueue& queue);

  GpuMessages& gpu_;
  const cuda::Device device_;
  DeviceBuffer room_;  ///< with the table behind it
  std::uint64_t room_bytes_ = 0;
  PinnedBuffer pinned_;  ///< of a pool: to unpin it would wait for all that the GPU has to do
  std::vector<std::shared_ptr<const Mapping>> mappings_;
  kernel::MeetTable known_{};
  std::uint64_t* done_ = nullptr;  ///< `Words::done`, as the GPU calls it
  kernel::MeetOrder order_{};      ///< the last one
  GpuErrand errand_;               ///< its courier; null: it goes by a kernel
  std::uint32_t looks_ = 0;
};

}  // namespace isthmus::coll
