// The benchmarks' pseudo-random numbers: x <- a x mod 2^46 with a = 5^13 (RNR-94-007, section 2.3).
#pragma once

#include <cstdint>

namespace integer_sort {

class Random {
 public:
  static constexpr int bits = 46;

  // The next 46 bits: the number r of the report is this / 2^46.
  std::uint64_t next() { return state_ = state_ * multiplier & mask; }

  // As if next() had been called so many times. In steps that grow with the logarithm.
  void skip(std::uint64_t count) {
    std::uint64_t power = multiplier;
    for (; count > 0; count >>= 1, power = power * power & mask) {
      if (count & 1) state_ = state_ * power & mask;
    }
  }

 private:
  static constexpr std::uint64_t multiplier = 1220703125;
  static constexpr std::uint64_t mask = (std::uint64_t{1} << bits) - 1;

  std::uint64_t state_ = 314159265;
};

}  // namespace integer_sort
