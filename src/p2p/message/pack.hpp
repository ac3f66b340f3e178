#pragma once

#include <cstddef>
#include <cstring>

#include "datatype/cursor.hpp"
#include "p2p/message/message.hpp"

namespace isthmus {

/// Copies a payload in host memory, packed, to `payload.bytes` bytes.
inline void pack_into(const Payload& payload, std::byte* to) {
  if (!payload.type) {
    if (payload.bytes != 0) std::memcpy(to, payload.data, payload.bytes);
    return;
  }
  Cursor cursor(*payload.type, payload.data, payload.count);
  cursor.pack({to, payload.bytes});
}

}  // namespace isthmus
