#pragma once

#include <cstddef>
#include <vector>

namespace isthmus {

/// `count` factors of `product` (at least 1), the largest first, that are as close to each other as they can
/// be: the difference between the largest and the smallest is the least there is. Among those the smallest is
/// the largest there is, then the next larger one, and so on, which makes the surface of a grid's parts small
/// (27 x 20 x 20, not 25 x 24 x 18). Exact; the longest searches below 2^31 take some 20 ms.
[[nodiscard]] std::vector<int> closest_factors(int product, std::size_t count);

}  // namespace isthmus
