#pragma once

#include <cstdint>

#include "p2p/message/message.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// The header of a cell with the envelope of a message.
[[nodiscard]] inline wire::CellHeader header_of(const Target& target, std::uint64_t size, wire::CellKind kind,
                                                std::uint16_t mark = 0) noexcept {
  return {.context = target.context,
          .source = target.source,
          .tag = target.tag,
          .size = static_cast<std::uint32_t>(size),
          .kind = kind,
          .flag = wire::CellFlag::none,
          .mark = mark};
}

}  // namespace isthmus
