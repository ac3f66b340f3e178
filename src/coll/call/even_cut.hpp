#pragma once

#include <algorithm>
#include <cstdint>

#include "datatype/datatype.hpp"

namespace isthmus::coll {

/// `total` cut into `parts` equal ones that begin at multiples of `grain`; the last ones may be shorter, or
/// empty.
class EvenCut {
 public:
  EvenCut(std::int64_t total, int parts, std::int64_t grain)
      : total_(total), each_(((total + parts - 1) / parts + grain - 1) / grain * grain) {}

  [[nodiscard]] std::int64_t begin(int part) const { return std::min(each_ * part, total_); }
  [[nodiscard]] std::int64_t size(int part) const { return begin(part + 1) - begin(part); }

 private:
  std::int64_t total_, each_;
};

/// Bytes at which parts of GPU memory begin, so that copies and kernels find both sides aligned alike.
inline constexpr std::int64_t gpu_grain = 256;
/// Elements between whose multiples data of that type is cut.
[[nodiscard]] inline std::int64_t grain_of(const Datatype& type) noexcept {
  return std::max<std::int64_t>(1, gpu_grain / type.size());
}

}  // namespace isthmus::coll
