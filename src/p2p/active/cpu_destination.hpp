#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/copy.hpp"
#include "base/error.hpp"
#include "datatype/cursor.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/request.hpp"
#include "wire/ring.hpp"

// Inline, because a message of 8 B is on its way here.
namespace isthmus {

/// Copies packed bytes into a payload from its start; returns how many went in.
inline std::uint64_t fill(const Payload& payload, const std::byte* bytes, std::uint64_t size) {
  const std::uint64_t taken = std::min(size, payload.bytes);
  if (!payload.type) [[likely]] {
    if (taken <= wire::inline_capacity)
      copy_small(payload.data, bytes, taken);
    else
      std::memcpy(payload.data, bytes, taken);
    return taken;
  }
  Cursor cursor(*payload.type, payload.data, payload.count);
  return cursor.unpack({bytes, taken});
}

/// Where a matched receive takes its bytes. Null: there is no memory for it, and the receive has failed.
inline const Payload* cpu_destination_of(Request& receive) noexcept {
  try {
    return &receive.cpu_destination();
  } catch (const std::bad_alloc&) {
    receive.status.bytes = 0;
    receive.status.error = static_cast<int>(ErrorClass::no_mem);
    return nullptr;
  }
}

/// A message of `size` packed bytes, all of which are here, completes the `receive` that it matches.
[[gnu::always_inline]] inline void deliver(Completion& completion, Request& receive, int source, int tag,
                                           const std::byte* bytes, std::uint64_t size) {
  receive.matched = true;
  receive.status.source = source;
  receive.status.tag = tag;
  const Payload* const to = cpu_destination_of(receive);
  if (!to) [[unlikely]]
    return completion.finish(receive);
  receive.status.bytes = fill(*to, bytes, size);
  if (size > receive.payload.bytes) [[unlikely]]
    receive.status.error = static_cast<int>(ErrorClass::truncate);
  completion.finish(receive);
}

}  // namespace isthmus
