#pragma once

#include <cstddef>
#include <cstdint>

#include "datatype/basic.hpp"
#include "datatype/op.hpp"

namespace isthmus {

/// `out[i] = a[i] OP b[i]` for `count` elements without gaps, at any alignment. `out` may be `a` or `b`.
using ReduceKernel = void (*)(const void* a, const void* b, void* out, std::size_t count);

/// The kernel of a predefined operation that computes with values; null where there is none.
[[nodiscard]] ReduceKernel reduce_kernel(OpCode code, Representation representation) noexcept;

/// Where a pair's parts lie.
struct PairLayout {
  std::int64_t extent;
  std::int64_t index_offset;
  Representation index;  // int32, float32 or float64
};

/// MPI_MINLOC and MPI_MAXLOC; otherwise as `ReduceKernel`.
using PairKernel = void (*)(const void* a, const void* b, void* out, std::size_t count,
                            const PairLayout& layout);

[[nodiscard]] PairKernel pair_kernel(OpCode code, Representation value) noexcept;

}  // namespace isthmus
