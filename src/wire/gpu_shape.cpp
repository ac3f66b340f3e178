#include "wire/gpu_shape.hpp"

#include <algorithm>
#include <span>

namespace isthmus::wire {

std::optional<GpuSpan> span_of(const GpuShape& shape, std::uint64_t bytes) noexcept {
  /// As far as any address can be from another.
  constexpr std::int64_t most = INT64_MAX / 4;
  if (shape.level_count > shape.levels.size() || bytes > static_cast<std::uint64_t>(most))
    return std::nullopt;
  GpuSpan span{.begin = 0, .end = 0};
  std::uint64_t around = bytes;
  for (const GpuShape::Level& level : std::span(shape.levels).first(shape.level_count)) {
    if (level.bytes == 0 || level.bytes > around || around % level.bytes != 0) return std::nullopt;
    const auto last = static_cast<std::int64_t>(around / level.bytes - 1);
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(last, level.stride, &reach) || reach > most || reach < -most)
      return std::nullopt;
    (reach < 0 ? span.begin : span.end) += reach;
    if (span.end > most || span.begin < -most) return std::nullopt;
    around = level.bytes;
  }
  span.end += static_cast<std::int64_t>(around);
  return span;
}

}  // namespace isthmus::wire
