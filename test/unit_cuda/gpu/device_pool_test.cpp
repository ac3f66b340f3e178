#include "gpu/memory/device_pool.hpp"

#include <optional>

#include "cuda_fixture.hpp"

namespace isthmus::testing_cuda::device_pool_test {
namespace {

class DevicePoolTest : public CudaTest {
 protected:
  cuda::PrimaryContexts contexts{functions};
};

TEST_F(DevicePoolTest, LendsWhatCameBackBeforeItTakesMore) {
  DevicePool pool(contexts, {});
  const std::byte* first = nullptr;
  {
    const auto buffer = pool.take(0, 100'000);
    ASSERT_TRUE(buffer);
    EXPECT_GE(buffer->size(), 100'000U);
    EXPECT_EQ(buffer->device(), 0);
    first = buffer->data();
  }
  const auto same = pool.take(0, 120'000);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->data(), first);
  const auto other = pool.take(0, 10);
  ASSERT_TRUE(other);
  EXPECT_NE(other->data(), first);
  const auto there = pool.take(1, 10);
  ASSERT_TRUE(there);
  EXPECT_EQ(there->device(), 1);
}

TEST_F(DevicePoolTest, KeepsItsLimit) {
  DevicePool pool(contexts, {.least = 1 << 16U, .most = 1 << 20U});
  const auto half = pool.take(0, 1 << 19U);
  ASSERT_TRUE(half);
  const auto more = pool.take(0, (1 << 19U) + 1);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().error_class(), ErrorClass::no_mem);
  EXPECT_THAT(more.error().text(), testing::HasSubstr("the limit of 1 MiB"));
  EXPECT_TRUE(pool.take(0, 1 << 19U));
  EXPECT_FALSE(pool.take(0, SIZE_MAX));
}

TEST_F(DevicePoolTest, SaysThatTheDeviceIsFull) {
  const Fault full("MEMORY", "1000000", "1073741824");
  DevicePool pool(contexts, {});
  const auto buffer = pool.take(0, 2'000'000);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().error_class(), ErrorClass::no_mem);
}

TEST_F(DevicePoolTest, ForgetsWhatAResetHasTaken) {
  DevicePool pool(contexts, {.least = 1 << 16U, .most = 1 << 20U});
  std::optional<DeviceBuffer> lent;
  {
    auto buffer = pool.take(0, 1 << 18U);
    const auto free = pool.take(0, 1 << 18U);
    ASSERT_TRUE(buffer && free);
    lent.emplace(std::move(*buffer));
  }
  reset_device();
  ASSERT_TRUE(contexts.check_alive(0));
  const cuda::Address others = allocate(1 << 18U);  // at an address that the pool had
  {
    const auto whole = pool.take(0, 1 << 20U);
    ASSERT_TRUE(whole) << "nothing of the limit is in use: " << whole.error().text();
  }
  lent.reset();
  {
    const auto again = pool.take(0, 1 << 18U);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->size(), 1U << 20U) << "not what came back from before the reset";
  }
  reset_device();
  EXPECT_EQ(functions.free(others), Status::invalid_value) << "gone, too";
}

TEST_F(DevicePoolTest, MayGoBeforeItsBuffers) {
  const auto handles = control.open_handles(nullptr, 0);
  DeviceBuffer late;
  {
    DevicePool pool(contexts, {});
    auto buffer = pool.take(0, 10);
    ASSERT_TRUE(buffer);
    late = std::move(*buffer);
  }
  // The context that it took from `contexts` stays.
  EXPECT_LE(control.open_handles(nullptr, 0), handles + 1);
}

}  // namespace
}  // namespace isthmus::testing_cuda::device_pool_test
