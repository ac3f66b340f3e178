#pragma once

#include <span>

#include "vrank/rank_copy.hpp"

namespace isthmus::vrank {

/// What ranks call in place of the C library's and the C++ library's: what ends a process, parses options, or
/// changes the environment.
[[nodiscard]] std::span<const Replacement> stand_ins() noexcept;

}  // namespace isthmus::vrank
