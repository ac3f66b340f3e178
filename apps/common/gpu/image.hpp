// The application's kernels as nvcc made them.
#pragma once

namespace apps::gpu {

// Null in a program that was built without nvcc.
[[nodiscard]] const void* kernel_image();

}  // namespace apps::gpu
