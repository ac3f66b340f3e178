#pragma once

#include <cstdint>

#include "p2p/message/message.hpp"
#include "wire/network.hpp"

namespace isthmus {

/// What travels in front of a message of `bytes`; `about`: whom it names besides, by its kind.
[[nodiscard]] constexpr wire::NetworkHeader network_header(wire::NetworkKind kind, const Target& target,
                                                           std::uint64_t bytes, wire::Cookie about) noexcept {
  return {.context = target.context,
          .source = target.source,
          .tag = target.tag,
          .bytes = bytes,
          .sender = about,
          .kind = kind,
          .flag = wire::CellFlag::none,
          .reserved16 = 0,
          .reserved32 = 0};
}

}  // namespace isthmus
