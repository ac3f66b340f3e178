#pragma once

#include <array>
#include <cstdint>
#include <optional>

/// How a message with gaps lies in memory, as its sender tells it.
namespace isthmus::wire {

/// From the outside in, steps of equal packed size at equal distances, around a block without gaps.
struct GpuShape {
  struct Level {
    std::int64_t stride;  ///< bytes from step to step
    std::uint64_t bytes;  ///< packed, of one step
  };
  std::array<Level, 6> levels;
  std::uint32_t level_count;  ///< 0: the message has no gaps
  std::uint32_t reserved;
};
static_assert(sizeof(GpuShape) == 104);

/// What a message takes of memory, counted from its first packed byte.
struct GpuSpan {
  std::int64_t begin;  ///< 0, or less where strides are negative
  std::int64_t end;
  friend bool operator==(const GpuSpan&, const GpuSpan&) = default;
};

/// Of a message of `bytes` packed bytes, all of which lie in that span. Nothing for a shape that is none: of
/// too many levels, whose steps do not divide what is around them, or that reaches beyond all memory.
[[nodiscard]] std::optional<GpuSpan> span_of(const GpuShape& shape, std::uint64_t bytes) noexcept;

}  // namespace isthmus::wire
