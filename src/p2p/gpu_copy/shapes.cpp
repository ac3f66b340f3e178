#include "p2p/gpu_copy/shapes.hpp"

#include <algorithm>
#include <cstdlib>

namespace isthmus {

static_assert(std::tuple_size_v<decltype(wire::GpuShape::levels)> == kernel::shape_levels);

std::optional<ShapedPayload> shaped_payload(const Payload& payload) noexcept {
  const auto side = shape_of({.data = payload.data, .type = payload.type, .count = payload.count});
  if (!side || side->irregular) return std::nullopt;
  ShapedPayload shaped{.first = reinterpret_cast<std::byte*>(side->shape.base), .shape = {}};
  shaped.shape.level_count = side->shape.level_count;
  for (std::uint32_t i = 0; i < side->shape.level_count; ++i)
    shaped.shape.levels[i] = {.stride = side->shape.levels[i].stride, .bytes = side->shape.levels[i].units};
  return shaped;
}

ShapedSide side_of(std::byte* first, const wire::GpuShape& shape) noexcept {
  ShapedSide side;
  side.shape.base = reinterpret_cast<kernel::Byte*>(first);
  side.shape.level_count = shape.level_count;
  for (std::uint32_t i = 0; i < shape.level_count; ++i) {
    const auto& [stride, bytes] = shape.levels[i];
    side.shape.levels[i] = {.stride = stride, .units = bytes, .by_units = {}};
    side.factors |= static_cast<std::uint64_t>(stride) | bytes;
  }
  return side;
}

bool reads_well(const wire::GpuShape& shape, std::uint64_t bytes) noexcept {
  if (shape.level_count == 0) return true;
  // A GPU reads its peer's memory 32 bytes at a time, needed or not, at 350 bytes a nanosecond; to pack takes
  // 10 us and then a nanosecond for 1000 bytes (2 x H200).
  constexpr double sector = 32;
  constexpr double read = 1.0 / 350;
  constexpr double packed = 1.0 / 1000;
  constexpr double to_pack = 10'000;
  const auto& [stride, block] = shape.levels[shape.level_count - 1];
  const double taken = std::clamp(static_cast<double>(std::llabs(stride)), static_cast<double>(block),
                                  std::max(sector, static_cast<double>(block)));
  const double excess = taken / static_cast<double>(block) - 1;
  return static_cast<double>(bytes) * (excess * read - packed) < to_pack;
}

}  // namespace isthmus
