#pragma once

#include <gtest/gtest.h>

#include "gpu/driver/cuda_api.hpp"

namespace isthmus::testing_cuda {

/// Memory of cuMemCreate, mapped for one device.
struct VmmMemory {
  VmmMemory(const cuda::Functions& the_functions, cuda::Device the_device,
            cuda::HandleType types = cuda::HandleType::posix_descriptor)
      : functions(the_functions),
        device(the_device),
        properties{.handle_types = types, .location = {cuda::LocationType::device, device}} {
    EXPECT_EQ(functions.granularity(&bytes, &properties, cuda::GranularityKind::recommended),
              cuda::Status::success);
    EXPECT_EQ(functions.address_reserve(&address, bytes, 0, 0, 0), cuda::Status::success);
    map();
  }
  VmmMemory(const VmmMemory&) = delete;
  VmmMemory& operator=(const VmmMemory&) = delete;
  ~VmmMemory() {
    EXPECT_EQ(functions.unmap(address, bytes), cuda::Status::success);
    EXPECT_EQ(functions.address_free(address, bytes), cuda::Status::success);
  }

  /// Puts other physical memory at the same addresses.
  void map_other() {
    EXPECT_EQ(functions.unmap(address, bytes), cuda::Status::success);
    map();
  }

  const cuda::Functions& functions;
  const cuda::Device device;
  const cuda::AllocationProperties properties;
  cuda::Address address = 0;
  std::size_t bytes = 0;

 private:
  void map() {
    cuda::Physical physical = 0;
    EXPECT_EQ(functions.physical_create(&physical, bytes, &properties, 0), cuda::Status::success);
    EXPECT_EQ(functions.map(address, bytes, 0, physical, 0), cuda::Status::success);
    const cuda::Access access{{cuda::LocationType::device, device}, cuda::AccessFlags::read_write};
    EXPECT_EQ(functions.set_access(address, bytes, &access, 1), cuda::Status::success);
    EXPECT_EQ(functions.physical_release(physical), cuda::Status::success);
  }
};

}  // namespace isthmus::testing_cuda
