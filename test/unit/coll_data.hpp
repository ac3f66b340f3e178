#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "coll/flow/flow.hpp"
#include "datatype/datatype.hpp"
#include "datatype/op.hpp"

/// Contents that the tests of collectives send: each element tells where it comes from and where it goes.
namespace isthmus::coll::testing_data {

using Ints = std::vector<std::int32_t>;

inline std::int32_t datum(int from, int to, std::int64_t i) {
  return static_cast<std::int32_t>(from * 10007 + to * 101 + i);
}

inline Ints data(int from, int to, std::int64_t count) {
  Ints ints(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    ints[static_cast<std::size_t>(i)] = datum(from, to, i);
  return ints;
}

/// The blocks of all ranks, one behind the other.
inline Ints from_all(int n, int to, std::int64_t count) {
  Ints all;
  for (int i = 0; i < n; ++i) {
    const Ints block = data(i, to, count);
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

inline const Datatype& int_type() {
  return Datatype::basic(Basic::int32);
}

/// Composition of the maps x -> a*x + b modulo 2^32, the left one first: associative, not commutative.
inline const Op& composition() {
  static const Ref<Op> op = Op::user(
      [](const void* in, void* inout, std::int64_t count, const Datatype&) {
        const auto* left = static_cast<const std::uint32_t*>(in);
        auto* right = static_cast<std::uint32_t*>(inout);
        for (std::int64_t i = 0; i < count; ++i) {
          const std::uint32_t a = left[2 * i];
          const std::uint32_t b = left[2 * i + 1];
          const std::uint32_t c = right[2 * i];
          const std::uint32_t d = right[2 * i + 1];
          right[2 * i] = c * a;
          right[2 * i + 1] = c * b + d;
        }
      },
      false);
  return *op;
}

inline void expect_done(const Result<>& result) {
  EXPECT_TRUE(result.has_value()) << result.error().text();
}
/// Of a flow on the blocking lane.
inline void expect_done(Flow flow) {
  expect_done(flow.result());
}

}  // namespace isthmus::coll::testing_data
