#pragma once

#include <string_view>

namespace isthmus {

/// Prints one line for the user on stderr, `isthmus: ` in front, in a single write, so that lines of several
/// ranks do not mix.
void warn(std::string_view text) noexcept;

}  // namespace isthmus
