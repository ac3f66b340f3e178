#include "vrank/process/touched_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace isthmus::vrank::touched_pages_test {
namespace {

constexpr std::uint64_t page = TouchedPages::page;
using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

class Touched : public testing::Test {
 protected:
  static constexpr std::size_t pages = 5000;
  void SetUp() override {
    void* const got =
        ::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(got, MAP_FAILED);
    memory = static_cast<char*>(got);
  }
  void TearDown() override { ::munmap(memory, pages * page); }
  /// Begins from `memory`, and bytes.
  [[nodiscard]] Ranges ranges(std::uint64_t begin, std::uint64_t bytes) const {
    Ranges found;
    const auto base = reinterpret_cast<std::uint64_t>(memory);
    TouchedPages().for_each(base + begin, bytes, [&](std::uint64_t from, std::uint64_t count) {
      found.emplace_back(from - base, count);
    });
    return found;
  }
  char* memory = nullptr;
};

TEST_F(Touched, AreNoneOfNewMemory) {
  EXPECT_EQ(ranges(0, pages * page), Ranges());
}

TEST_F(Touched, AreThoseThatHaveBeenWritten) {
  for (const std::size_t each : {0, 1, 100, 1023, 1024, 4999})
    memory[each * page + 5] = 1;
  const Ranges all{{0, 2 * page}, {100 * page, page}, {1023 * page, 2 * page}, {4999 * page, page}};
  EXPECT_EQ(ranges(0, pages * page), all);
}

TEST_F(Touched, AreNoMoreThanWasAskedFor) {
  for (std::size_t each = 10; each < 20; ++each)
    memory[each * page] = 1;
  EXPECT_EQ(ranges(10 * page + 100, 3 * page), (Ranges{{10 * page + 100, 3 * page}}));
  EXPECT_EQ(ranges(18 * page, 100 * page), (Ranges{{18 * page, 2 * page}}));
}

TEST_F(Touched, ComeWithThoseOfASmallGap) {
  memory[50 * page] = 1;
  memory[58 * page] = 1;
  memory[70 * page] = 1;
  EXPECT_EQ(ranges(0, pages * page), (Ranges{{50 * page, 9 * page}, {70 * page, page}}));
}

}  // namespace
}  // namespace isthmus::vrank::touched_pages_test
