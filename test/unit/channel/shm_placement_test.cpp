#include "channel/shm/placement.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace isthmus {
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

}  // namespace
}  // namespace isthmus
