#pragma once

#include <cstdint>

#include "base/unique_fd.hpp"

/// Files in memory without a name (memfd_create(2)), which processes share by their descriptors.
namespace isthmus {

/// An empty one that can be sealed, close-on-exec; errno says why there is none.
[[nodiscard]] UniqueFd make_memory_file();

/// Gives it its size, all zeros. False, and errno, where that fails. Raises no SIGXFSZ.
[[nodiscard]] bool set_size(const UniqueFd& file, std::uint64_t bytes);

}  // namespace isthmus
