#include "gpu/copy/copy_crew.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace isthmus::copy_crew_test {
namespace {

CpuSet here() {
  return CpuSet::affinity().value_or(CpuSet());
}

/// Bytes that differ from their neighbours and from those a block away.
std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>((i + (i >> 8U) + (i >> 16U) * 7 + seed) & 0xffU);
  return made;
}

TEST(CopyCrew, CopiesEveryByteAndNoOther) {
  CopyCrew crew(here(), 2);
  constexpr std::size_t edge = 64;
  unsigned seed = 0;
  for (const std::size_t bytes : {std::size_t{1}, CopyCrew::least_shared - 1, CopyCrew::least_shared,
                                  CopyCrew::least_shared + 1, std::size_t{3'000'001}})
    for (const std::size_t offset : {0U, 1U, 63U}) {
      const auto from = pattern(bytes + edge, ++seed);
      std::vector<std::byte> to(bytes + 2 * edge, std::byte{0x5a});
      crew.copy(to.data() + offset, from.data() + offset / 2, bytes);
      EXPECT_TRUE(std::equal(to.begin() + static_cast<std::ptrdiff_t>(offset),
                             to.begin() + static_cast<std::ptrdiff_t>(offset + bytes),
                             from.begin() + static_cast<std::ptrdiff_t>(offset / 2)))
          << bytes;
      for (std::size_t i = 0; i < offset; ++i)
        ASSERT_EQ(to[i], std::byte{0x5a});
      for (std::size_t i = offset + bytes; i < to.size(); ++i)
        ASSERT_EQ(to[i], std::byte{0x5a});
    }
}

TEST(CopyCrew, CopiesOneAfterTheOtherAndAfterARest) {
  CopyCrew crew(here(), 4);
  constexpr std::size_t bytes = CopyCrew::least_shared * 2 + 5;
  std::vector<std::byte> to(bytes);
  for (unsigned i = 0; i < 300; ++i) {
    const auto from = pattern(bytes, i);
    crew.copy(to.data(), from.data(), bytes);
    ASSERT_EQ(to, from) << i;
    if (i % 100 == 99) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(crew.shared(), 300U);
  EXPECT_GT(crew.helpers(), 0U);
}

TEST(CopyCrew, IsTheCallerAloneWithoutHelpersOrProcessorsForThem) {
  const auto from = pattern(CopyCrew::least_shared, 1);
  for (const bool has_processors : {false, true}) {
    CopyCrew crew(has_processors ? here() : CpuSet(), has_processors ? 0 : 3);
    std::vector<std::byte> to(from.size());
    crew.copy(to.data(), from.data(), from.size());
    EXPECT_EQ(to, from);
    EXPECT_EQ(crew.shared(), 0U);
    EXPECT_EQ(crew.helpers(), 0U);
  }
}

TEST(CopyCrew, DoesWithoutHelpersThatMayNotRunWhereTheyShould) {
  CpuSet elsewhere;
  elsewhere.insert(8'000);  // no machine that this runs on has it
  CopyCrew crew(elsewhere, 1);
  const auto from = pattern(CopyCrew::least_shared, 1);
  std::vector<std::byte> to(from.size());
  crew.copy(to.data(), from.data(), from.size());
  EXPECT_EQ(to, from);
  EXPECT_EQ(crew.helpers(), 0U);
}

}  // namespace
}  // namespace isthmus::copy_crew_test
