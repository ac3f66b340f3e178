#pragma once

#include <cstddef>
#include <memory>

#include "base/unique_fd.hpp"
#include "gpu/memory/buffer.hpp"
#include "gpu/memory/device_pool.hpp"
#include "p2p/message/gpu_windows.hpp"
#include "p2p/message/message.hpp"
#include "route/plan.hpp"
#include "wire/gpu.hpp"

namespace isthmus {

/// What a peer offers to a receive in GPU memory, or in its own.
struct GpuSource {
  wire::GpuExport memory{};         ///< exporter 0: it has told nothing
  wire::GpuShape shape{};           ///< of no level where the message has no gaps
  std::uint32_t latency_bound = 0;  ///< as in `wire::GpuOffer`
  bool has_failed = false;          ///< the send: there is nothing to be had
  bool is_on_host = false;          ///< it lies in pinned memory of the host, of which nothing is told
};

/// What a request has besides where its payload lies in GPU memory.
struct GpuPart {
  Buffer buffer;
  Payload payload;  ///< the program's; that of the request is in host memory, or not to be touched
  std::unique_ptr<std::byte[]>
      stand_in;            ///< receive: of the payload in host memory, packed, once it is needed
  UniqueFd descriptor;     ///< of an export that the peer fetches itself, for as long as it may
  GpuWindows::Slot slot;   ///< send: what its payload lies in, where it was short and could not be handed on
  DeviceBuffer packed;     ///< send: what its payload lies in, where the program's has gaps
  wire::GpuShape shape{};  ///< send: where its bytes lie, if it is offered as they lie
  GpuSource source;        ///< receive: what the sender has offered
  bool landed = false;     ///< receive: nothing is to be copied from the stand-in any more

  /// Whether a GPU can copy all of it at once.
  [[nodiscard]] bool is_one_copy() const noexcept {
    return !payload.type && buffer.is_on_gpu() && buffer.is_whole();
  }
  /// Whether it is memory that a network can take: one run of a GPU's own, whose pages stay where they are.
  [[nodiscard]] bool suits_network() const noexcept {
    return is_one_copy() && buffer.is_own && buffer.kind != MemoryKind::managed;
  }
};

}  // namespace isthmus
