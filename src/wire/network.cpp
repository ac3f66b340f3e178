#include "wire/network.hpp"

#include <cstring>
#include <limits>

namespace isthmus::wire {

std::optional<NetworkHeader> read_network_header(std::span<const std::byte> bytes) noexcept {
  NetworkHeader header;
  if (bytes.size() != sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const bool known = header.kind >= NetworkKind::message && header.kind <= NetworkKind::seen_off;
  const bool flagged = header.flag == CellFlag::none || header.flag == CellFlag::synchronous;
  if (!known || !flagged || header.source < 0 || header.bytes > std::numeric_limits<std::int64_t>::max())
    return std::nullopt;
  return header;
}

}  // namespace isthmus::wire
