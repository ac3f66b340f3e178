#pragma once

#include <memory>

#include "base/error.hpp"
#include "gpu/driver/cuda_driver.hpp"
#include "p2p/message/message.hpp"
#include "p2p/progress/poll_list.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus {

/// The messages in GPU memory of an engine, which there are from when the program has initialised CUDA and
/// names GPU memory until `close`. Guarded by the engine's lock.
class GpuAccess {
 public:
  GpuAccess(GpuMessages::Surroundings around, PollList& polled) noexcept : around_(around), polled_(polled) {}
  GpuAccess(const GpuAccess&) = delete;
  GpuAccess& operator=(const GpuAccess&) = delete;

  /// Both before the first message; without the second there is no network.
  void set_fetcher(OfferFetcher* offers) noexcept { around_.offers = offers; }
  void set_network(GpuNetwork* network) noexcept { around_.network = network; }

  /// Whether the program has initialised CUDA, so that a payload may lie in GPU memory: 1 ns.
  [[nodiscard]] bool uses_cuda() noexcept { return cuda_.find() != nullptr; }
  /// Makes them if that has not been tried. Null before the program uses CUDA, and where CUDA does not work.
  GpuMessages* get() { return messages_ || has_failed_ || !uses_cuda() ? messages_.get() : make(); }
  /// Null where nobody has made them.
  [[nodiscard]] GpuMessages* made() const noexcept { return messages_.get(); }
  /// Copies a payload in any memory, packed, to `payload.bytes` bytes of host memory.
  Result<> pack(const Payload& payload, std::byte* to);
  /// While the program still has its GPUs. None are made from then on.
  void close() noexcept;

 private:
  GpuMessages* make();

  GpuMessages::Surroundings around_;
  PollList& polled_;
  CudaDriver cuda_;
  bool has_failed_ = false;
  std::unique_ptr<GpuMessages> messages_;
};

}  // namespace isthmus
