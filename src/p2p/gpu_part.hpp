#pragma once

#include <cstddef>
#include <memory>

#include "base/unique_fd.hpp"
#include "memory/buffer.hpp"
#include "memory/device_pool.hpp"
#include "p2p/message.hpp"
#include "route/plan.hpp"
#include "wire/gpu.hpp"

namespace isthmus {

/// What a request has besides where its payload lies in GPU memory.
struct GpuPart {
  Buffer buffer;
  Payload payload;  ///< the program's; that of the request is in host memory, or not to be touched
  std::unique_ptr<std::byte[]> stand_in;  ///< receive: of the payload in host memory, packed
  UniqueFd descriptor;     ///< of an export that the peer fetches itself, for as long as it may
  DeviceBuffer packed;     ///< send: what its payload lies in, where the program's has gaps
  wire::GpuExport source;  ///< receive: what the sender has offered; exporter 0: nothing
  bool landed = false;     ///< receive: the bytes are where they belong

  /// Whether a GPU can copy all of it at once.
  [[nodiscard]] bool is_one_copy() const noexcept {
    return !payload.type && buffer.is_on_gpu() && buffer.is_whole();
  }
};

}  // namespace isthmus
