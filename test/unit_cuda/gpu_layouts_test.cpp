// Messages with gaps: by kernels wherever a GPU has the bytes, never a call of the driver for each block.
#include "p2p/gpu_copy/layouts.hpp"

#include <algorithm>

#include "cuda_fixture.hpp"
#include "datatype/cursor.hpp"
#include "datatype/make/construct.hpp"
#include "kernels_fixture.hpp"

namespace isthmus::testing_cuda::gpu_layouts_test {
namespace {

constexpr std::int64_t blocks = 5000;
constexpr std::size_t packed_bytes = 8 * blocks;
constexpr std::size_t extent = 16 * blocks;
/// Far less than a call for each block.
constexpr unsigned long long few_calls = 300;

class GpuLayoutsTest : public CudaTest {
 protected:
  GpuLayoutsTest() {
    EXPECT_NE(driver.find(), nullptr);
    auto made = vector_type(blocks, 1, 2, Datatype::basic(Basic::double_), Form::small);
    EXPECT_TRUE(made);
    if (made) each_second = std::move(*made);
    EXPECT_TRUE(each_second->commit());
  }
  void SetUp() override {
    // Also makes the twins known.
    if (tested_kernels().empty() || kernel_image().empty()) GTEST_SKIP() << "the kernels were not built";
  }

  std::byte* managed_memory(std::size_t bytes) {
    cuda::Address address = 0;
    EXPECT_EQ(functions.managed_allocate(&address, bytes, cuda::attach_global), Status::success);
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
  }
  void move_to_gpu(std::byte* data, std::size_t bytes) {
    EXPECT_EQ(
        functions.managed_prefetch(address_of(data), bytes, {cuda::LocationType::device, 0}, 0, nullptr),
        Status::success);
    EXPECT_EQ(functions.context_synchronize(), Status::success);
  }
  static void number(std::byte* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      data[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  [[nodiscard]] Payload with_gaps(std::byte* data) const { return Payload::of(data, 1, *each_second); }

  /// Copies and counts the calls of the driver.
  unsigned long long calls_for(const Payload& from, const Payload& to) {
    const auto before = control.calls();
    auto copy = layouts.start(engine, from, to, packed_bytes);
    EXPECT_TRUE(copy) << copy.error().text();
    if (copy) EXPECT_TRUE(copy->wait());
    return control.calls() - before;
  }
  /// What `memory_with_gaps` has in its blocks is `packed`.
  static void expect_blocks(const std::byte* memory_with_gaps, const std::byte* packed) {
    for (std::size_t i = 0; i < blocks; ++i)
      ASSERT_TRUE(std::equal(packed + 8 * i, packed + 8 * i + 8, memory_with_gaps + 16 * i)) << "block " << i;
  }

  CudaDriver driver;
  Classifier classifier{driver};
  cuda::PrimaryContexts contexts{functions};
  CopyEngine engine{contexts, 0};
  GpuLayouts layouts{contexts, classifier, false};
  Ref<Datatype> each_second;
};

TEST_F(GpuLayoutsTest, ManagedMemoryOnTheGpuIsPackedByAKernel) {
  std::byte* const from = managed_memory(extent);
  number(from, extent);
  const std::vector<std::byte> before(from, from + extent);
  move_to_gpu(from, extent);
  std::vector<std::byte> pageable(packed_bytes);
  EXPECT_LT(calls_for(with_gaps(from), Payload::of(pageable.data(), packed_bytes)), few_calls)
      << "to pageable";
  expect_blocks(before.data(), pageable.data());

  const cuda::Address device = allocate(packed_bytes);
  move_to_gpu(from, extent);
  EXPECT_LT(calls_for(with_gaps(from), Payload::of(reinterpret_cast<std::byte*>(device), packed_bytes)),
            few_calls)
      << "to device memory";
  const auto arrived = read(device, packed_bytes);
  EXPECT_TRUE(std::equal(arrived.begin(), arrived.end(), reinterpret_cast<unsigned char*>(pageable.data())));

  move_to_gpu(from, extent);
  auto packed = layouts.pack(engine, with_gaps(from));
  ASSERT_TRUE(packed) << packed.error().text();
  const auto seen = read(address_of(packed->data()), packed_bytes);
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), arrived.begin()));
  EXPECT_EQ(functions.free(device), Status::success);
  EXPECT_EQ(functions.free(address_of(from)), Status::success);
}

TEST_F(GpuLayoutsTest, ManagedMemoryOnTheGpuIsUnpackedByAKernelThatLeavesTheGaps) {
  std::byte* const to = managed_memory(extent);
  std::fill_n(to, extent, std::byte{0xee});
  move_to_gpu(to, extent);
  std::vector<std::byte> packed(packed_bytes);
  number(packed.data(), packed_bytes);
  EXPECT_LT(calls_for(Payload::of(packed.data(), packed_bytes), with_gaps(to)), few_calls);
  expect_blocks(to, packed.data());
  for (std::size_t i = 0; i + 1 < blocks; ++i)
    ASSERT_EQ(to[16 * i + 8], std::byte{0xee}) << "the gap behind block " << i;
  EXPECT_EQ(functions.free(address_of(to)), Status::success);
}

TEST_F(GpuLayoutsTest, ManagedMemoryOnTheHostStaysThere) {
  std::byte* const from = managed_memory(extent);
  number(from, extent);
  const cuda::Address device = allocate(packed_bytes);
  EXPECT_LT(calls_for(with_gaps(from), Payload::of(reinterpret_cast<std::byte*>(device), packed_bytes)),
            few_calls);
  const auto pages = classifier.classify(from, extent);
  ASSERT_TRUE(pages);
  EXPECT_EQ(pages->pages, PageLocation::host);
  const auto arrived = read(device, packed_bytes);
  expect_blocks(from, reinterpret_cast<const std::byte*>(arrived.data()));
  EXPECT_EQ(functions.free(device), Status::success);
  EXPECT_EQ(functions.free(address_of(from)), Status::success);
}

}  // namespace
}  // namespace isthmus::testing_cuda::gpu_layouts_test
