#pragma once

#include <algorithm>
#include <cstdint>

namespace isthmus {

/// Bytes of a chunk of a message between GPU memory and other hosts, unless a setting says otherwise.
inline constexpr std::uint64_t default_network_chunk = 1024 * 1024;

/// The least message of two chunks. Each is longer than `eager_limit`, what the network sends at once.
/// `chunk`: the setting.
[[nodiscard]] constexpr std::uint64_t network_cut_from(std::uint64_t eager_limit,
                                                       std::uint64_t chunk) noexcept {
  return 2 * std::max(chunk != 0 ? chunk : default_network_chunk, eager_limit + 1);
}

}  // namespace isthmus
