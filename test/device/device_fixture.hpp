#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cuda_functions.hpp"
#include "exporter_role.hpp"
#include "gpu/memory/classify.hpp"
#include "gpu/memory/mapping_cache.hpp"

namespace isthmus::testing_cuda {

using cuda::Status;

inline cuda::Address address_of(const void* pointer) {
  return reinterpret_cast<cuda::Address>(pointer);
}

/// A driver, whichever libcuda.so.1 is found, with the primary context of device 0 current.
class DeviceTest : public testing::Test {
 protected:
  DeviceTest()
      : functions(cuda_functions()), gpus(*GpuList::read(functions)), self(*ProcessIdentity::here()) {
    EXPECT_EQ(functions.primary_retain(&context, 0), Status::success);
    EXPECT_EQ(functions.context_push(context), Status::success);
    EXPECT_NE(driver.find(), nullptr);
  }
  ~DeviceTest() override {
    cuda::Context popped = nullptr;
    EXPECT_EQ(functions.context_pop(&popped), Status::success);
    EXPECT_EQ(functions.primary_release(0), Status::success);
  }
  [[nodiscard]] std::vector<unsigned char> read(const void* from, std::size_t bytes) const {
    std::vector<unsigned char> result(bytes);
    EXPECT_EQ(functions.copy(address_of(result.data()), address_of(from), bytes), Status::success);
    return result;
  }
  Buffer classify(cuda::Address address, std::size_t bytes = 8) {
    const auto buffer = classifier.classify(reinterpret_cast<void*>(address), bytes);
    EXPECT_TRUE(buffer) << buffer.error().text();
    return buffer ? *buffer : Buffer{};
  }

  const cuda::Functions& functions;
  const GpuList gpus;
  const ProcessIdentity self;
  cuda::Context context = nullptr;
  cuda::PrimaryContexts contexts{functions};
  MappingCache cache{contexts, gpus, self, {}};
  CudaDriver driver;
  Classifier classifier{driver};
};

}  // namespace isthmus::testing_cuda
