#pragma once

#include <span>
#include <string_view>

namespace isthmus {

/// The one of `words` (not empty) that is the fewest edits away from `word`: what a mistyped name probably
/// meant. Leaving the end away counts as one edit.
std::string_view nearest(std::string_view word, std::span<const std::string_view> words);

}  // namespace isthmus
