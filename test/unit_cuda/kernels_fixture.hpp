#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

#include "cuda_functions.hpp"
#include "gpu/copy/engine.hpp"
#include "kernels/gpu_kernels.hpp"

namespace isthmus::testing_cuda {

/// The image of the kernels to test: the library's, with the host's twins where the driver is emulated. Empty
/// where there is none.
std::span<const std::byte> tested_kernels();

/// Kernels on device 0 of the driver under test, emulated or not.
class KernelTest : public testing::Test {
 protected:
  KernelTest() : functions(cuda_functions()) {
    EXPECT_EQ(functions.primary_retain(&context, 0), cuda::Status::success);
    EXPECT_EQ(functions.context_push(context), cuda::Status::success);
  }
  ~KernelTest() override {
    cuda::Context popped = nullptr;
    EXPECT_EQ(functions.context_pop(&popped), cuda::Status::success);
    EXPECT_EQ(functions.primary_release(0), cuda::Status::success);
  }
  void SetUp() override {
    if (tested_kernels().empty()) GTEST_SKIP() << "the kernels were not built";
    ASSERT_EQ(kernels.trouble(0), "");
  }

  const cuda::Functions& functions;
  cuda::Context context = nullptr;
  cuda::PrimaryContexts contexts{functions};
  CopyEngine engine{contexts, 0, 1};
  GpuKernels kernels{contexts, tested_kernels()};
};

/// Bytes in the memory of a device.
class DeviceBytes {
 public:
  DeviceBytes(const cuda::Functions& functions, std::size_t bytes) : functions_(functions), bytes_(bytes) {
    EXPECT_EQ(functions_.allocate(&address_, bytes), cuda::Status::success);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { EXPECT_EQ(functions_.free(address_), cuda::Status::success); }

  [[nodiscard]] std::byte* data() const {
    return reinterpret_cast<std::byte*>(address_);  // NOLINT(performance-no-int-to-ptr)
  }
  void write(std::span<const std::byte> from) const {
    EXPECT_EQ(functions_.copy(address_, reinterpret_cast<cuda::Address>(from.data()), from.size()),
              cuda::Status::success);
  }
  [[nodiscard]] std::vector<std::byte> read() const { return read(bytes_); }
  /// The first of them.
  [[nodiscard]] std::vector<std::byte> read(std::size_t bytes) const {
    std::vector<std::byte> result(bytes);
    EXPECT_EQ(functions_.copy(reinterpret_cast<cuda::Address>(result.data()), address_, bytes),
              cuda::Status::success);
    return result;
  }

 private:
  const cuda::Functions& functions_;
  const std::size_t bytes_;
  cuda::Address address_ = 0;
};

}  // namespace isthmus::testing_cuda
