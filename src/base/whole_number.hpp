#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace isthmus {

/// The decimal number that is all of `text`, without sign for unsigned types, space or '+'; nothing if it is
/// none or does not fit.
template <class Integer>
[[nodiscard]] std::optional<Integer> whole_number(std::string_view text) noexcept {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace isthmus
