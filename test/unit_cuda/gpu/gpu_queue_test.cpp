#include "gpu/copy/queue.hpp"

#include "cuda_fixture.hpp"

namespace isthmus::testing_cuda::gpu_queue_test {
namespace {

using testing::Each;
using testing::HasSubstr;

class GpuQueueTest : public CudaTest {
 protected:
  static std::byte* at(cuda::Address address) { return reinterpret_cast<std::byte*>(address); }
  std::unique_ptr<GpuQueue> make() const {
    auto made = GpuQueue::make(functions);
    EXPECT_TRUE(made);
    return std::move(*made);
  }
};

TEST_F(GpuQueueTest, MarksTellHowFarItIs) {
  const auto queue = make();
  const cuda::Address from = allocate(2000);
  const cuda::Address to = allocate(2000);
  EXPECT_EQ(functions.fill(from, 9, 2000), Status::success);
  {
    const Fault slow("MEGABYTES_PER_SECOND", "1", "0");
    ASSERT_TRUE(queue->copy(at(to), at(from), 1000));
    const auto first = queue->mark();
    ASSERT_TRUE(queue->copy(at(to) + 1000, at(from), 1000));
    const auto second = queue->mark();
    ASSERT_TRUE(first && second);
    EXPECT_EQ(*first, 0U);
    EXPECT_EQ(*second, 1U);
    EXPECT_EQ(queue->has_passed(*second), false) << "it takes 2 ms";
    queue->drain();
    EXPECT_EQ(queue->has_passed(*first), true);
    EXPECT_EQ(queue->has_passed(*second), true);
  }
  EXPECT_THAT(read(to, 2000), Each(9));
  queue->forget_marks();
  EXPECT_EQ(queue->mark(), 0U);
  EXPECT_EQ(functions.free(from), Status::success);
  EXPECT_EQ(functions.free(to), Status::success);
}

TEST_F(GpuQueueTest, AFailedCopyNamesItsBytes) {
  const auto queue = make();
  const cuda::Address memory = allocate(1000);
  const cuda::Address gone = allocate(1000);
  EXPECT_EQ(functions.free(gone), Status::success);
  const auto copied = queue->copy(at(memory), at(gone), 123);
  ASSERT_FALSE(copied);
  EXPECT_THAT(copied.error().text(), HasSubstr("copy 123 bytes between GPUs"));
  EXPECT_EQ(functions.free(memory), Status::success);
}

}  // namespace
}  // namespace isthmus::testing_cuda::gpu_queue_test
