#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "emulated_control.hpp"
#include "gpu/driver/cuda_context.hpp"

namespace isthmus::testing_cuda {

using cuda::Status;

/// The emulated driver with the primary context of device 0 current.
class CudaTest : public testing::Test {
 protected:
  CudaTest() : functions(cuda_functions()), control(load_emulated()) {
    EXPECT_EQ(functions.primary_retain(&context, 0), Status::success);
    EXPECT_EQ(functions.context_push(context), Status::success);
  }
  ~CudaTest() override {
    cuda::Context popped = nullptr;
    EXPECT_EQ(functions.context_pop(&popped), Status::success);
    EXPECT_EQ(popped, context);
    EXPECT_EQ(functions.primary_release(0), Status::success);
  }

  [[nodiscard]] cuda::Address allocate(std::size_t bytes) const {
    cuda::Address address = 0;
    EXPECT_EQ(functions.allocate(&address, bytes), Status::success);
    return address;
  }
  /// Device memory's bytes, by way of the copy engine.
  [[nodiscard]] std::vector<unsigned char> read(cuda::Address from, std::size_t bytes) const {
    std::vector<unsigned char> result(bytes);
    EXPECT_EQ(functions.copy(reinterpret_cast<cuda::Address>(result.data()), from, bytes), Status::success);
    return result;
  }

  /// Of device 0, which is then used again.
  void reset_device() {
    using Reset = Status (*)(cuda::Device);
    EXPECT_EQ(reinterpret_cast<Reset>(symbol("cuDevicePrimaryCtxReset_v2"))(0), Status::success);
    EXPECT_EQ(functions.primary_retain(&context, 0), Status::success);
    EXPECT_EQ(functions.primary_release(0), Status::success);
  }

  const cuda::Functions& functions;
  const Control& control;
  cuda::Context context = nullptr;
};

inline cuda::Address address_of(const void* pointer) {
  return reinterpret_cast<cuda::Address>(pointer);
}

}  // namespace isthmus::testing_cuda
