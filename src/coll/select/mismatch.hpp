#pragma once

#include <cstdint>

#include "base/error.hpp"

namespace isthmus::coll {

/// The error where `rank` says `theirs` and this member `mine`: `Call`s that differ.
[[gnu::cold]] std::unexpected<Error> mismatch(std::uint64_t mine, int rank, std::uint64_t theirs);

}  // namespace isthmus::coll
