#include "gpu/copy/gdr_mappings.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include "cuda_fixture.hpp"
#include "gpu/memory/classify.hpp"
#include "vmm_memory.hpp"

namespace isthmus::testing_cuda::gdr_mappings_test {
namespace {

class GdrMappingsTest : public CudaTest {
 protected:
  GdrMappingsTest() {
    // From then on the loader finds it by its name alone.
    const auto path = std::filesystem::path(emulated_path()).parent_path() / "libgdrapi.so.2";
    if (!GdrDriver::open(path.c_str())) throw std::runtime_error("no libgdrapi.so.2");
  }
  Buffer classify(cuda::Address address, std::size_t bytes) {
    return *classifier.classify(reinterpret_cast<void*>(address), bytes);
  }
  CudaDriver driver;
  Classifier classifier{driver};
  GdrMappings mappings;
};

TEST_F(GdrMappingsTest, LoadAndStoreByOneMappingForAllMessagesOfAPage) {
  const cuda::Address memory = allocate(4096);
  const std::string words = "short message";
  for (const unsigned offset : {0U, 100U, 4000U}) {
    ASSERT_TRUE(mappings.store(classify(memory + offset, words.size()), words.data()));
    const auto seen = read(memory + offset, words.size());
    EXPECT_EQ(std::string(seen.begin(), seen.end()), words);
    std::string back(words.size(), ' ');
    ASSERT_TRUE(mappings.load(back.data(), classify(memory + offset, words.size())));
    EXPECT_EQ(back, words);
  }
  EXPECT_EQ(mappings.open_mappings(), 1U);
  EXPECT_EQ(mappings.counts().loads, 3U);
  EXPECT_EQ(mappings.counts().stores, 3U);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(GdrMappingsTest, NeverTakeAFreedAllocationForTheNextAtItsPlace) {
  const cuda::Address memory = allocate(4096);
  const char old = 1;
  ASSERT_TRUE(mappings.store(classify(memory, 1), &old));
  EXPECT_EQ(functions.free(memory), Status::success);
  const cuda::Address again = allocate(4096);
  ASSERT_EQ(again, memory);
  const char fresh = 2;
  ASSERT_TRUE(mappings.store(classify(again, 1), &fresh));
  EXPECT_EQ(read(again, 1)[0], 2);
  EXPECT_EQ(mappings.open_mappings(), 2U);
  mappings.close_freed();
  EXPECT_EQ(mappings.open_mappings(), 1U) << "of the first";
  EXPECT_EQ(functions.free(again), Status::success);
}

TEST_F(GdrMappingsTest, AreBounded) {
  std::vector<cuda::Address> memories;
  for (std::size_t i = 0; i < GdrMappings::most_mappings + 10; ++i) {
    memories.push_back(allocate(64));
    const auto value = static_cast<char>(i);
    ASSERT_TRUE(mappings.store(classify(memories.back(), 1), &value));
  }
  EXPECT_EQ(mappings.open_mappings(), GdrMappings::most_mappings);
  for (std::size_t i = 0; i < memories.size(); ++i) {
    char value = -1;
    ASSERT_TRUE(mappings.load(&value, classify(memories[i], 1)));
    EXPECT_EQ(value, static_cast<char>(i));
    EXPECT_EQ(functions.free(memories[i]), Status::success);
  }
}

TEST_F(GdrMappingsTest, LeaveOtherMemoryAlone) {
  const VmmMemory memory(functions, 0);
  char value = 7;
  EXPECT_FALSE(mappings.load(&value, classify(memory.address, 1)));
  EXPECT_FALSE(mappings.store(classify(memory.address, 1), &value));
  EXPECT_EQ(value, 7);
  EXPECT_EQ(mappings.open_mappings(), 0U);
}

}  // namespace
}  // namespace isthmus::testing_cuda::gdr_mappings_test
