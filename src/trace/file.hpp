#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"

/// The files that ranks write to.
namespace isthmus::trace {

/// The name of a rank's file in its folder.
[[nodiscard]] std::string name_of_file(std::uint32_t rank);

/// A new file, never one that is there: that may be another job's, or lead elsewhere. Empty, and errno, where
/// it cannot be made.
[[nodiscard]] UniqueFd make_file(const std::string& path);

/// The empty file that `trace_file_variable` names, close-on-exec. Empty where there is none. To be called
/// once: programs that this process will start are not told of it.
[[nodiscard]] UniqueFd take_file_of_launcher();

}  // namespace isthmus::trace
