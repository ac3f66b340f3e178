#include "comm/memory_kinds.hpp"

#include <gtest/gtest.h>

namespace isthmus::memory_kinds::memory_kinds_test {
namespace {

TEST(MemoryKinds, SystemAndMpiAreAlwaysThere) {
  EXPECT_EQ(supported("", false), "system,mpi");
  EXPECT_EQ(supported("mpi:win_allocate,system", true), "system,mpi");
}

TEST(MemoryKinds, OnlyWhatIsKnownAndThere) {
  EXPECT_EQ(supported("cuda:device,rocm", true), "system,mpi,cuda:device");
  EXPECT_EQ(supported("cuda:device,rocm", false), "system,mpi");
  EXPECT_EQ(supported("cuda:device:texture,cuda:host", true), "system,mpi,cuda:host");
  EXPECT_EQ(supported(" cuda , cuda:host ,,", true), "system,mpi,cuda");
}

TEST(MemoryKinds, RestrictorsAreWithinTheirKind) {
  EXPECT_TRUE(is_within("cuda:device", "system,cuda"));
  EXPECT_TRUE(is_within("cuda:device:host", "cuda:device,cuda:host"));
  EXPECT_FALSE(is_within("cuda", "cuda:device:host:managed"));
  EXPECT_FALSE(is_within("cuda:managed", "cuda:device"));
  EXPECT_FALSE(is_within("system,rocm", "system,mpi"));
  EXPECT_TRUE(is_within("", "system"));
}

TEST(MemoryKinds, TheFirstIsAllocated) {
  EXPECT_EQ(to_allocate("cuda:managed:device"), AllocationKind::cuda_managed);
  EXPECT_EQ(to_allocate("cuda"), AllocationKind::cuda_device);
  EXPECT_EQ(to_allocate("cuda:host,system"), AllocationKind::cuda_host);
  EXPECT_EQ(to_allocate("mpi:alloc_mem"), AllocationKind::host);
  EXPECT_EQ(to_allocate("rocm:device,cuda"), std::nullopt);
  EXPECT_EQ(to_allocate(""), std::nullopt);
}

}  // namespace
}  // namespace isthmus::memory_kinds::memory_kinds_test
