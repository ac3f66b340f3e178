#pragma once

#include <cstdint>
#include <vector>

#include "gpu/copy/engine.hpp"
#include "p2p/message/message.hpp"

namespace isthmus {

/// What has to be copied to bring the first `bytes` bytes of a payload into another.
[[nodiscard]] std::vector<CopyPiece> pieces_of(const Payload& from, const Payload& to, std::uint64_t bytes);

}  // namespace isthmus
