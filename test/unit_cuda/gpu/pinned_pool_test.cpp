#include "gpu/memory/pinned_pool.hpp"

#include "cuda_fixture.hpp"

namespace isthmus::testing_cuda::pinned_pool_test {
namespace {

using testing::HasSubstr;

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

class PinnedPoolTest : public CudaTest {
 protected:
  cuda::PrimaryContexts contexts{functions};
};

TEST_F(PinnedPoolTest, PinsWhenFirstAskedAndKeepsItForTheNext) {
  PinnedPool pool(contexts, 0, {});
  EXPECT_EQ(pool.pinned(), 0U);
  std::byte* first = nullptr;
  {
    const auto buffer = pool.take(300 * kib);
    ASSERT_TRUE(buffer) << buffer.error().text();
    EXPECT_EQ(buffer->size(), 512 * kib);
    first = buffer->data();
    first[buffer->size() - 1] = std::byte{1};
  }
  EXPECT_EQ(pool.pinned(), 512 * kib);
  const auto again = pool.take(200 * kib);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->data(), first);
  EXPECT_EQ(pool.pinned(), 512 * kib);
}

TEST_F(PinnedPoolTest, FallsToSmallerBuffersWhereMemoryIsShort) {
  const Fault fault("PINNED", "300000", "18446744073709551615");
  PinnedPool pool(contexts, 0, {});
  const auto first = pool.take(mib);
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_EQ(first->size(), 256 * kib);
  const auto second = pool.take(mib);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().error_class(), ErrorClass::no_mem);
  EXPECT_THAT(second.error().text(), HasSubstr("not even 64 KiB"));
  EXPECT_THAT(second.error().text(), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
}

TEST_F(PinnedPoolTest, GivesAllThatIsAskedForOrPinsNothing) {
  PinnedPool pool(contexts, 0, {.least = 64 * kib, .most = mib});
  EXPECT_FALSE(pool.take_whole(mib + 1));
  EXPECT_EQ(pool.pinned(), 0U);
  const auto half = pool.take_whole(300 * kib);
  ASSERT_TRUE(half) << half.error().text();
  EXPECT_EQ(half->size(), 512 * kib);
  const auto more = pool.take_whole(600 * kib);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().error_class(), ErrorClass::no_mem);
  EXPECT_EQ(pool.pinned(), 512 * kib);
}

TEST_F(PinnedPoolTest, StaysBelowItsLimit) {
  PinnedPool pool(contexts, 0, {.least = 64 * kib, .most = mib});
  {
    const auto whole = pool.take(16 * mib);
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->size(), mib);
    const auto none = pool.take(1);
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().text(), HasSubstr("1 MiB is in use"));
  }
  EXPECT_EQ(pool.take(64 * kib)->size(), mib) << "what is there is lent, larger though it is";
}

TEST_F(PinnedPoolTest, KeepsWhatIsPinnedWhereALargerOneIsWanted) {
  PinnedPool pool(contexts, 0, {.least = 64 * kib, .most = mib});
  {
    const auto a = pool.take(512 * kib);
    const auto b = pool.take(256 * kib);
    EXPECT_TRUE(a && b);
  }
  const auto largest = pool.take(mib);
  ASSERT_TRUE(largest) << largest.error().text();
  EXPECT_EQ(largest->size(), 512 * kib) << "to unpin the others would wait for the GPU";
  EXPECT_EQ(pool.pinned(), 768 * kib);
}

TEST_F(PinnedPoolTest, PinsAnewAfterAResetAndLeavesWhatIsLentReadable) {
  PinnedPool pool(contexts, 0, {.least = 64 * kib, .most = mib});
  auto lent = pool.take(512 * kib);
  ASSERT_TRUE(lent && pool.take(512 * kib));
  reset_device();
  ASSERT_TRUE(contexts.check_alive(0));
  lent->data()[100] = std::byte{5};
  EXPECT_EQ(lent->data()[100], std::byte{5});
  *lent = PinnedBuffer();
  const auto again = pool.take(mib);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(pool.pinned(), mib);
  unsigned kind = 0;
  EXPECT_EQ(
      functions.pointer_attribute(&kind, cuda::PointerAttribute::memory_type, address_of(again->data())),
      Status::success)
      << "it is pinned";
}

}  // namespace
}  // namespace isthmus::testing_cuda::pinned_pool_test
