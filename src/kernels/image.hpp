#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace isthmus {

/// The kernels as nvcc made them, for all GPUs that they were built for; empty in a library built without
/// nvcc.
[[nodiscard]] std::span<const std::byte> kernel_image() noexcept;

/// For which GPUs: "sm_75 sm_80 ... compute_75"; empty where there is no image.
[[nodiscard]] std::string_view kernel_targets() noexcept;

/// Whether those that GPUs of this compute capability run wait themselves for what is before them on a stream
/// (kernels.cu): code made for these, not what the driver makes of an older target's.
[[nodiscard]] bool kernels_follow(int major) noexcept;

}  // namespace isthmus
