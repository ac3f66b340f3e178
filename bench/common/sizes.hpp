// Sizes as the points name them: 8B, 64KiB, 1MiB.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace isthmus::bench {

inline std::string size_name(std::size_t bytes) {
  if (bytes >= (1U << 20) && bytes % (1U << 20) == 0) return std::to_string(bytes >> 20) + "MiB";
  if (bytes >= (1U << 10) && bytes % (1U << 10) == 0) return std::to_string(bytes >> 10) + "KiB";
  return std::to_string(bytes) + "B";
}

inline std::optional<std::size_t> parse_size(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const unsigned long long number = std::strtoull(copy.c_str(), &end, 10);
  if (end == copy.c_str()) return std::nullopt;
  const std::string_view suffix(end);
  if (suffix == "B") return number;
  if (suffix == "KiB") return number << 10;
  if (suffix == "MiB") return number << 20;
  return std::nullopt;
}

}  // namespace isthmus::bench
