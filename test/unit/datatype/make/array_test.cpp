// Subarrays and distributed arrays select the elements that the standard's definition selects.

#include "datatype/make/array_types.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "datatype/cursor.hpp"

namespace isthmus::test::array_test {
namespace {

using Ints = std::vector<int>;

Integers view(const Ints& values) {
  return std::span<const int>(values);
}

/// What the type takes from the array 0, 1, 2, ...
Ints selected(Datatype& type, std::int64_t elements) {
  EXPECT_TRUE(type.commit());
  Ints array(static_cast<std::size_t>(elements));
  std::iota(array.begin(), array.end(), 0);
  Ints packed(static_cast<std::size_t>(type.size()) / sizeof(int));
  EXPECT_EQ(pack(type, array.data(), 1, std::as_writable_bytes(std::span(packed))),
            packed.size() * sizeof(int));
  return packed;
}

Datatype& integer() {
  return Datatype::basic(Basic::int_);
}

TEST(Subarray, TakesTheSameBoxInBothOrders) {
  const Ints sizes{3, 4, 5}, subsizes{2, 1, 3}, starts{1, 2, 0};
  for (const ArrayOrder order : {ArrayOrder::c, ArrayOrder::fortran}) {
    const auto made = subarray_type(view(sizes), view(subsizes), view(starts), order, integer(), Form::small);
    ASSERT_TRUE(made);
    EXPECT_EQ((*made)->lb(), 0);
    EXPECT_EQ((*made)->extent(), 60 * 4);
    Ints expected;
    if (order == ArrayOrder::c) {
      for (int i = 1; i < 3; ++i) {
        for (int k = 0; k < 3; ++k)
          expected.push_back((i * 4 + 2) * 5 + k);
      }
    } else {
      for (int k = 0; k < 3; ++k) {
        for (int i = 1; i < 3; ++i)
          expected.push_back((k * 4 + 2) * 3 + i);
      }
    }
    EXPECT_EQ(selected(**made, 60), expected);
  }
}

TEST(Subarray, RangesOutsideTheArrayAreRefused) {
  const auto refused = [](int size, int subsize, int start) {
    const auto made =
        subarray_type(view({size}), view({subsize}), view({start}), ArrayOrder::c, integer(), Form::small);
    return !made && made.error().error_class() == ErrorClass::arg;
  };
  EXPECT_TRUE(refused(4, 5, 0));
  EXPECT_TRUE(refused(4, 2, 3));
  EXPECT_TRUE(refused(4, 0, 0));
  EXPECT_TRUE(refused(4, 1, -1));
  EXPECT_TRUE(refused(0, 1, 0));
  EXPECT_FALSE(refused(4, 4, 0));
  EXPECT_FALSE(subarray_type(view({}), view({}), view({}), ArrayOrder::c, integer(), Form::small));
  EXPECT_FALSE(
      subarray_type(view({1}), view({1}), view({0}), static_cast<ArrayOrder>(3), integer(), Form::small));
}

TEST(Subarray, ExtentsBeyond64BitsAreRefused) {
  const std::vector<std::int64_t> sizes(4, 1 << 30), ones(4, 1), zeros(4, 0);
  const auto made =
      subarray_type(std::span<const std::int64_t>(sizes), std::span<const std::int64_t>(ones),
                    std::span<const std::int64_t>(zeros), ArrayOrder::c, integer(), Form::large);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().error_class(), ErrorClass::arg);
}

/// Who owns index `i` of a dimension.
int owner(int i, int size, int processes, int distribution, int argument) {
  switch (static_cast<Distribution>(distribution)) {
    case Distribution::block: {
      const int length =
          argument == default_distribution_argument ? (size + processes - 1) / processes : argument;
      return i / length;
    }
    case Distribution::cyclic: {
      const int length = argument == default_distribution_argument ? 1 : argument;
      return i / length % processes;
    }
    default:
      return 0;
  }
}

TEST(Darray, EveryProcessTakesWhatItOwnsInArrayOrder) {
  std::mt19937 random(7);
  const auto number = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
  for (int round = 0; round < 150; ++round) {
    Ints sizes(2), distributions(2), arguments(2), processes(2);
    for (std::size_t d = 0; d < 2; ++d) {
      sizes[d] = number(1, 13);
      distributions[d] = number(16, 18);
      processes[d] = distributions[d] == 16 ? 1 : number(1, 4);
      const int fair = (sizes[d] + processes[d] - 1) / processes[d];
      const int least = distributions[d] == static_cast<int>(Distribution::block) ? fair : 1;
      arguments[d] = number(0, 1) != 0 ? default_distribution_argument : number(least, least + 3);
    }
    const ArrayOrder order = round % 2 == 0 ? ArrayOrder::c : ArrayOrder::fortran;
    for (int rank = 0; rank < processes[0] * processes[1]; ++rank) {
      const ProcessGrid grid{processes[0] * processes[1], rank, distributions, arguments, processes};
      const auto made = darray_type(grid, view(sizes), order, integer(), Form::small);
      ASSERT_TRUE(made) << made.error().text();
      Ints expected;
      const std::size_t slow = order == ArrayOrder::c ? 0 : 1, fast = 1 - slow;
      const int coordinates[] = {rank / processes[1], rank % processes[1]};
      const auto mine = [&](std::size_t d, int i) {
        return owner(i, sizes[d], processes[d], distributions[d], arguments[d]) == coordinates[d];
      };
      for (int i = 0; i < sizes[slow]; ++i) {
        for (int j = 0; j < sizes[fast]; ++j) {
          if (mine(slow, i) && mine(fast, j)) expected.push_back(i * sizes[fast] + j);
        }
      }
      ASSERT_EQ(selected(**made, sizes[0] * sizes[1]), expected);
      ASSERT_EQ((*made)->extent(), 4 * sizes[0] * sizes[1]);
      ASSERT_EQ((*made)->lb(), 0);
    }
  }
}

TEST(Darray, GridsThatDoNotFitAreRefused) {
  const auto refused = [](int size, int rank, int processes, int distribution, int argument) {
    const Ints distributions{distribution}, arguments{argument}, counts{processes};
    const auto made = darray_type({size, rank, distributions, arguments, counts}, view({10}), ArrayOrder::c,
                                  integer(), Form::small);
    return !made && made.error().error_class() == ErrorClass::arg;
  };
  EXPECT_FALSE(refused(2, 1, 2, 17, 5));
  EXPECT_TRUE(refused(2, 2, 2, 17, 5));
  EXPECT_TRUE(refused(3, 1, 2, 17, 5));
  EXPECT_TRUE(refused(2, 1, 2, 17, 4));
  EXPECT_TRUE(refused(2, 1, 2, 16, default_distribution_argument));
  EXPECT_TRUE(refused(2, 1, 2, 18, 0));
  EXPECT_TRUE(refused(2, 1, 2, 99, 1));
}

}  // namespace
}  // namespace isthmus::test::array_test
