#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "gpu/driver/cuda_api.hpp"

namespace isthmus::cuda {

/// "CUDA_ERROR_INVALID_CONTEXT, invalid device context".
std::string text_of(const Functions& functions, Status status);

/// Whether a context has failed for good with that status: every later call returns it, and what the program
/// computed there is lost.
bool is_sticky(Status status) noexcept;

/// "the CUDA driver refuses to WHAT: ..."; for a sticky status it says that the program's own GPU work has
/// failed.
[[nodiscard]] std::unexpected<Error> fail(const Functions& functions, Status status, std::string_view what);

/// "the program has reset GPU DEVICE REST".
[[nodiscard]] std::unexpected<Error> fail_after_reset(Device device, std::string_view rest);

}  // namespace isthmus::cuda
