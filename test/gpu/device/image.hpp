#pragma once

/// The kernels of this program, for `module_load`.
const void* kernel_image();
