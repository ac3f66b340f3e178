#include "channel/shm/placement.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <span>
#include <utility>
#include <vector>

namespace isthmus::placement_test {
namespace {

constexpr std::size_t page = 4096;

/// The policy of the page at `address`, and the nodes that it names.
std::pair<int, unsigned long> policy_at(std::byte* address) {
  int mode = -1;
  std::array<unsigned long, 16> nodes{};
  constexpr int mpol_f_addr = 2;
  if (::syscall(SYS_get_mempolicy, &mode, nodes.data(), nodes.size() * 64, address, mpol_f_addr) != 0)
    return {-1, 0};
  return {mode, nodes[0]};
}

class SharedPages : public testing::Test {
 protected:
  void SetUp() override {
    void* mapped = ::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(mapped), 4 * page};
    if (policy_at(memory_.data()).first < 0) GTEST_SKIP() << "this kernel has no memory policies";
  }
  void TearDown() override { ::munmap(memory_.data(), memory_.size()); }

  std::span<std::byte> memory_;
};

TEST_F(SharedPages, AreTakenFromTheNodeThatIsNamed) {
  ASSERT_TRUE(prefer_node(memory_.subspan(page, 2 * page), 0));
  constexpr int preferred = 1;
  EXPECT_EQ(policy_at(&memory_[0]).first, 0);
  EXPECT_EQ(policy_at(&memory_[page]), std::pair(preferred, 1UL));
  EXPECT_EQ(policy_at(&memory_[3 * page]).first, 0);
}

TEST_F(SharedPages, StayAsTheyAreForPiecesOfPagesAndNodesThatAreNot) {
  EXPECT_FALSE(prefer_node(memory_.subspan(1, page), 0));
  EXPECT_FALSE(prefer_node(memory_, -1));
  EXPECT_FALSE(prefer_node(memory_, 1000));
  EXPECT_FALSE(prefer_node(memory_, 1 << 20));
  EXPECT_EQ(policy_at(&memory_[0]).first, 0);
}

/// Which of the pages of `memory` exist.
std::vector<bool> existing(std::span<std::byte> memory) {
  std::vector<unsigned char> pages(memory.size() / page);
  if (::mincore(memory.data(), memory.size(), pages.data()) != 0) return {};
  std::vector<bool> exist;
  for (const unsigned char each : pages)
    exist.push_back((each & 1) != 0);
  return exist;
}

TEST_F(SharedPages, AreMappedBeforeTheyAreTouched) {
  ASSERT_EQ(existing(memory_), (std::vector{false, false, false, false}));
  const int begins_to_be_there = ::madvise(memory_.data(), page, 23);
  if (begins_to_be_there != 0) GTEST_SKIP() << "this kernel maps no pages ahead";
  map_pages(memory_.subspan(page + 1, 2 * page + 1));
  EXPECT_EQ(existing(memory_), (std::vector{true, false, true, false}));
  map_pages(memory_.subspan(1, 7));
  map_pages(memory_);
  EXPECT_EQ(existing(memory_), (std::vector{true, true, true, true}));
}

}  // namespace
}  // namespace isthmus::placement_test
