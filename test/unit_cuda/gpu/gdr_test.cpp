#include "gpu/copy/gdr_driver.hpp"

#include <filesystem>

#include "cuda_fixture.hpp"
#include "gpu/memory/classify.hpp"
#include "roles.hpp"
#include "vmm_memory.hpp"

namespace isthmus::testing_cuda::gdr_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string gdr_path() {
  return std::filesystem::path(emulated_path()).parent_path() / "libgdrapi.so.2";
}

class GdrTest : public CudaTest {
 protected:
  GdrTest() {
    auto opened = GdrDriver::open(gdr_path().c_str());
    if (!opened) throw std::runtime_error(opened.error().text());
    gdr = std::move(*opened);
  }
  Buffer classify(cuda::Address address, std::size_t bytes) {
    return *classifier.classify(reinterpret_cast<void*>(address), bytes);
  }
  std::unique_ptr<GdrDriver> gdr;
  CudaDriver driver;
  Classifier classifier{driver};
};

TEST_F(GdrTest, LetsTheProcessorStoreToAndLoadFromTheDevice) {
  const cuda::Address other = allocate(3000);  // so that the next does not begin with a page
  const cuda::Address memory = allocate(200'000);
  ASSERT_NE(memory % gdr::page, 0U);
  const Buffer buffer = classify(memory + 100'000, 50);
  const auto mapping = GdrMapping::open(*gdr, buffer);
  ASSERT_TRUE(mapping) << mapping.error().text();
  const std::string words = "straight into the device";
  (*mapping)->store(buffer.data, words.data(), words.size());
  const auto seen = read(memory + 100'000, words.size());
  EXPECT_EQ(std::string(seen.begin(), seen.end()), words);
  EXPECT_EQ(functions.fill(memory + 100'010, 'x', 5), Status::success);
  std::string back(words.size(), ' ');
  (*mapping)->load(back.data(), buffer.data, back.size());
  EXPECT_EQ(back, "straight ixxxxxhe device");
  EXPECT_FALSE((*mapping)->covers(buffer.data, 100'000));
  EXPECT_FALSE((*mapping)->covers(reinterpret_cast<std::byte*>(memory - 100'000), 1));
  EXPECT_EQ(functions.free(memory), Status::success);
  EXPECT_EQ(functions.free(other), Status::success);
}

TEST_F(GdrTest, MapsSmallAllocations) {
  const cuda::Address other = allocate(3000);
  const cuda::Address memory = allocate(16);
  const auto mapping = GdrMapping::open(*gdr, classify(memory, 16));
  ASSERT_TRUE(mapping) << mapping.error().text();
  const char value = 9;
  (*mapping)->store(reinterpret_cast<std::byte*>(memory) + 15, &value, 1);
  EXPECT_EQ(read(memory + 15, 1)[0], 9);
  EXPECT_EQ(functions.free(memory), Status::success);
  EXPECT_EQ(functions.free(other), Status::success);
}

TEST_F(GdrTest, TellsThatTheMemoryWasFreed) {
  const cuda::Address memory = allocate(4096);
  const auto mapping = GdrMapping::open(*gdr, classify(memory, 8));
  ASSERT_TRUE(mapping);
  EXPECT_FALSE((*mapping)->is_stale());
  EXPECT_EQ(functions.free(memory), Status::success);
  EXPECT_TRUE((*mapping)->is_stale());
  const cuda::Address again = allocate(4096);
  ASSERT_EQ(again, memory);
  EXPECT_TRUE((*mapping)->is_stale()) << "another allocation lies there";
  EXPECT_EQ(functions.free(again), Status::success);
}

TEST_F(GdrTest, SaysWhatItCannotMap) {
  const VmmMemory memory(functions, 0);
  const auto mapping = GdrMapping::open(*gdr, classify(memory.address, 8));
  ASSERT_FALSE(mapping);
  EXPECT_THAT(mapping.error().text(), AllOf(HasSubstr("VMM memory"), HasSubstr("cudaMalloc")));
}

TEST(GdrDriver, SaysWhatIsMissing) {
  const auto absent = GdrDriver::open("/no/such/libgdrapi.so.2");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().text(), AllOf(HasSubstr("/no/such"), HasSubstr("takes longer")));
  const auto foreign = GdrDriver::open("libc.so.6");
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().text(), HasSubstr("gdr_pin_buffer"));
}

int without_module(const Line&) {
  cuda_functions();
  const auto opened = GdrDriver::open(gdr_path().c_str());
  return !opened && opened.error().text().contains("gdrdrv is not loaded") ? 0 : 1;
}
const Role without_module_role("without gdrdrv", without_module);

TEST(GdrDriver, SaysThatItsKernelModuleIsMissing) {
  EXPECT_EQ(Player("without gdrdrv", {.settings = {"EMULATED_GDR=absent"}}).end(), 0);
}

}  // namespace
}  // namespace isthmus::testing_cuda::gdr_test
