#pragma once

#include <cstddef>
#include <span>

namespace isthmus::tuning {

/// What must be gained for a measured value to replace the default: less is noise.
inline constexpr double worth_it = 0.05;

/// Two ways to carry messages, measured at the same ascending sizes (time per message): how many of the sizes
/// go by the first way. Starts from `usual` and moves on, up or down, for as long as the other way gains at
/// least `worth_it` at the next size.
[[nodiscard]] std::size_t switch_point(std::span<const double> first, std::span<const double> second,
                                       std::size_t usual) noexcept;

/// The best of several candidates, each measured at the same sizes: the one with the least mean time,
/// relative to the candidate `usual`; `usual` itself where that gains less than `worth_it`.
[[nodiscard]] std::size_t best_of(std::span<const std::span<const double>> candidates, std::size_t usual);

}  // namespace isthmus::tuning
