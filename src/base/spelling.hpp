#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace isthmus {

/// The one of `words` (not empty) that is the fewest edits away from `word`: what a mistyped name probably
/// meant. Leaving the end away counts as one edit.
std::string_view nearest(std::string_view word, std::span<const std::string_view> words);

/// Ascending numbers, three and more in a row as a range: "0, 1, 4-7".
std::string list_of(std::span<const std::uint32_t> numbers);

}  // namespace isthmus
