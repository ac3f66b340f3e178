#pragma once

#include <cstdint>

#include "kernels/body/threads.hpp"

namespace isthmus::kernel {

/// Divides numbers below 2^31 by a multiplication, a sixth of a division's time there (Granlund and
/// Montgomery, "Division by invariant integers using multiplication", 1994, figure 4.1).
struct Divider {
  std::uint32_t multiplier = 1;
  std::uint32_t shift = 0;

  static constexpr Divider by(std::uint32_t divisor) {
    std::uint32_t shift = 0;
    while ((std::uint64_t{1} << shift) < divisor)
      ++shift;
    const std::uint64_t above = (std::uint64_t{1} << shift) - divisor;
    return {static_cast<std::uint32_t>((above << 32) / divisor + 1), shift};
  }
  /// By more than every number: 0.
  static constexpr Divider never() { return {0, 31}; }
  [[nodiscard]] ISTHMUS_ANYWHERE std::uint32_t operator()(std::uint32_t number) const {
#if defined(__CUDA_ARCH__)
    const std::uint32_t high = __umulhi(number, multiplier);
#else
    const auto high = static_cast<std::uint32_t>((std::uint64_t{number} * multiplier) >> 32);
#endif
    return (number + high) >> shift;
  }
};

/// A block of an irregular layout: where it begins, and how many packed bytes are before it.
struct alignas(16) Run {
  std::int64_t offset;
  std::uint64_t packed;
};

inline constexpr int shape_levels = 6;

/// Where the bytes of a packed message lie: from the outside in, steps of equal packed size at equal
/// distances, and then either one block or runs. A unit is what one thread moves at a time; it divides
/// everything here.
struct Shape {
  struct Level {
    std::int64_t stride;  ///< bytes
    std::uint64_t units;  ///< packed, of one step
    Divider by_units;     ///< where all units are fewer than 2^31
  };
  Byte* base;           ///< of the first packed byte
  const Run* runs;      ///< the first at 0 and 0; null where there are none
  std::uint64_t first;  ///< unit of the message where the copy begins
  std::uint32_t run_count;
  std::uint32_t level_count;
  Level levels[shape_levels];
};

struct MoveArguments {
  Shape from, to;
  std::uint64_t units;
};

ISTHMUS_ANYWHERE const Run& run_at(const Shape& shape, std::uint64_t packed) {
  std::uint32_t low = 0;
  std::uint32_t high = shape.run_count;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (shape.runs[middle].packed <= packed)
      low = middle;
    else
      high = middle;
  }
  return shape.runs[low];
}

/// The address of a unit, counted from where the copy begins.
template <std::uint64_t unit_bytes, bool many>
ISTHMUS_ANYWHERE Byte* address_of(const Shape& shape, std::uint64_t unit) {
  std::uint64_t rest = shape.first + unit;
  std::int64_t offset = 0;
  for (std::uint32_t i = 0; i < shape.level_count; ++i) {
    const Shape::Level& level = shape.levels[i];
    std::uint64_t step = 0;
    if constexpr (many)
      step = rest / level.units;
    else
      step = level.by_units(static_cast<std::uint32_t>(rest));
    rest -= step * level.units;
    offset += static_cast<std::int64_t>(step) * level.stride;
  }
  std::uint64_t packed = rest * unit_bytes;
  if (shape.runs) {
    const Run run = run_at(shape, packed);
    offset += run.offset;
    packed -= run.packed;
  }
  return shape.base + offset + packed;
}

/// `many`: one of the sides has 2^31 units or more.
template <class Unit, bool many>
ISTHMUS_ANYWHERE void move(const MoveArguments& work, const Thread& thread) {
  constexpr int together = 4;
  const std::uint64_t step = thread.all();
  for (std::uint64_t first = thread.of_all(); first < work.units; first += step * together) {
    Unit loaded[together];
    ISTHMUS_UNROLL
    for (int i = 0; i < together; ++i)
      if (first + step * i < work.units)
        loaded[i] = load<Unit>(address_of<sizeof(Unit), many>(work.from, first + step * i));
    ISTHMUS_UNROLL
    for (int i = 0; i < together; ++i)
      if (first + step * i < work.units)
        store(address_of<sizeof(Unit), many>(work.to, first + step * i), loaded[i]);
  }
}

}  // namespace isthmus::kernel

/// The kernels isthmus_move_BYTES and isthmus_move_many_BYTES: X(type of a unit, BYTES).
#define ISTHMUS_MOVE_KERNELS(X) \
  X(::isthmus::kernel::Byte, 1) \
  X(std::uint16_t, 2)           \
  X(std::uint32_t, 4)           \
  X(std::uint64_t, 8)           \
  X(::isthmus::kernel::Vector, 16)
