#pragma once

#include <cstddef>
#include <memory>

#include "base/unique_fd.hpp"
#include "memory/buffer.hpp"
#include "memory/device_pool.hpp"
#include "p2p/message.hpp"

namespace isthmus {

/// What a request has besides where its payload lies in GPU memory.
struct GpuPart {
  Buffer buffer;
  Payload payload;  ///< the program's; that of the request is in host memory, or not to be touched
  std::unique_ptr<std::byte[]>
      stand_in;         ///< of the payload in host memory, packed; null while none is needed
  UniqueFd descriptor;  ///< send: of the offer, for as long as the receiver may fetch it
  DeviceBuffer packed;  ///< send: what its payload lies in, where the program's has gaps
  bool landed = false;  ///< receive: the bytes are where they belong
};

}  // namespace isthmus
