#pragma once

#include <cstdint>

namespace isthmus {

/// A 64-bit integer that remembers whether any step that led to it overflowed.
class Checked {
 public:
  constexpr Checked(std::int64_t value = 0) : value_(value) {}

  [[nodiscard]] constexpr bool ok() const { return ok_; }
  /// The exact value; meaningless unless `ok()`.
  [[nodiscard]] constexpr std::int64_t value() const { return value_; }

  friend constexpr Checked operator+(Checked a, Checked b) {
    Checked sum;
    sum.ok_ = !__builtin_add_overflow(a.value_, b.value_, &sum.value_) && a.ok_ && b.ok_;
    return sum;
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    Checked difference;
    difference.ok_ = !__builtin_sub_overflow(a.value_, b.value_, &difference.value_) && a.ok_ && b.ok_;
    return difference;
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    Checked product;
    product.ok_ = !__builtin_mul_overflow(a.value_, b.value_, &product.value_) && a.ok_ && b.ok_;
    return product;
  }

 private:
  std::int64_t value_;
  bool ok_ = true;
};

}  // namespace isthmus
