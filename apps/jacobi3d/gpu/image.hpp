// The kernels as nvcc made them.
#pragma once

namespace jacobi::gpu {

// Null in a program that was built without nvcc.
[[nodiscard]] const void* kernel_image();

}  // namespace jacobi::gpu
