#include "gpu/memory/vmm_allocation.hpp"

#include "cuda_fixture.hpp"
#include "gpu/memory/classify.hpp"
#include "gpu/memory/export.hpp"

namespace isthmus::testing_cuda::vmm_allocation_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class VmmAllocationTest : public CudaTest {
 protected:
  cuda::PrimaryContexts contexts{functions};
  const GpuList gpus{*GpuList::read(functions)};
};

TEST_F(VmmAllocationTest, IsMemoryThatAnyProcessAndAnyGpuReaches) {
  const auto allocation = VmmAllocation::make(contexts, gpus, 1, 5000);
  ASSERT_TRUE(allocation) << allocation.error().text();
  EXPECT_EQ((*allocation)->size(), std::size_t{2} << 20U);
  EXPECT_EQ(functions.fill(address_of((*allocation)->data()), 8, 5000), Status::success) << "by GPU 0";
  EXPECT_THAT(read(address_of((*allocation)->data()), 5000), Each(8));
  CudaDriver driver;
  Classifier classifier(driver);
  const auto buffer = classifier.classify((*allocation)->data() + 10, 100);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->kind, MemoryKind::vmm);
  EXPECT_EQ(buffer->device, 1);
  Exporter exporter(functions, *ProcessIdentity::here());
  EXPECT_TRUE(exporter.offer(*buffer));
}

TEST_F(VmmAllocationTest, SaysThatMemoryIsShortAndLeavesNothing) {
  const Fault fault("MEMORY", "1000000", "1073741824");
  const auto handles = control.open_handles(nullptr, 0);
  const auto allocation = VmmAllocation::make(contexts, gpus, 0, 5000);
  ASSERT_FALSE(allocation);
  EXPECT_EQ(allocation.error().error_class(), ErrorClass::no_mem);
  EXPECT_THAT(allocation.error().text(), AllOf(HasSubstr("5000 bytes on GPU 0"), HasSubstr("OUT_OF_MEMORY")));
  EXPECT_EQ(control.open_handles(nullptr, 0), handles + 1) << "the context of the device";
  EXPECT_FALSE(VmmAllocation::make(contexts, gpus, 0, 0));
  EXPECT_FALSE(VmmAllocation::make(contexts, gpus, 0, ~std::size_t{0}));
}

}  // namespace
}  // namespace isthmus::testing_cuda::vmm_allocation_test
