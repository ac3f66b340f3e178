#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/body/threads.hpp"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#else
#include "datatype/float_types.hpp"
#endif

/// MPI's operations on one pair of values, as datatype/op_kernels.cpp computes them. MPI 5.0, section 6.9.2.
namespace isthmus::kernel {

using Wide = unsigned __int128;
using SignedWide = __int128;

/// IEEE binary16, by its bits. Sums and products of two of these, computed with 24 bits and rounded once
/// more, are rounded as if directly.
struct Half {
  std::uint16_t bits;

  [[nodiscard]] ISTHMUS_ANYWHERE float value() const {
#if defined(__CUDACC__)
    return __half2float(__ushort_as_half(bits));
#elif ISTHMUS_HAS_FLOAT16
    Float16 half;
    std::memcpy(&half, &bits, sizeof half);
    return static_cast<float>(half);
#else
    return 0;
#endif
  }
  static ISTHMUS_ANYWHERE Half of(float value) {
#if defined(__CUDACC__)
    return {__half_as_ushort(__float2half_rn(value))};
#elif ISTHMUS_HAS_FLOAT16
    const auto half = static_cast<Float16>(value);
    Half made{};
    std::memcpy(&made, &half, sizeof half);
    return made;
#else
    return {static_cast<std::uint16_t>(value)};
#endif
  }
};

template <class Part>
struct Complex {
  Part real, imaginary;
};

template <class T>
ISTHMUS_ANYWHERE T number(T value) {
  return value;
}
ISTHMUS_ANYWHERE float number(Half value) {
  return value.value();
}
template <class T, class Value>
ISTHMUS_ANYWHERE T rounded(Value value) {
  if constexpr (std::is_same_v<T, Half>)
    return Half::of(value);
  else
    return static_cast<T>(value);
}

struct Sum {
  template <class T>
  static ISTHMUS_ANYWHERE T of(T a, T b) {
    return rounded<T>(number(a) + number(b));
  }
};

/// What C calls recovery of infinities in a product of complex numbers (C23, annex G.5.1): where the plain
/// formula gives two NaNs although an operand or a partial product is infinite.
template <class Part>
ISTHMUS_ANYWHERE Complex<Part> recovered(Complex<Part> product, Complex<Part> a, Complex<Part> b) {
  const auto is_nan = [](Part x) { return std::isnan(x); };
  const auto is_infinite = [](Part x) { return std::isinf(x); };
  const auto negative = [](Part x) {
    using Bits = std::conditional_t<sizeof(Part) == 4, std::int32_t, std::int64_t>;
    Bits bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    return bits < 0;
  };
  const auto signed_as = [&](Part x, Part sign) { return negative(sign) ? -x : x; };
  const auto boxed = [&](Part x) { return signed_as(is_infinite(x) ? Part(1) : Part(0), x); };
  const auto no_nan = [&](Part x) { return is_nan(x) ? signed_as(Part(0), x) : x; };
  if (!is_nan(product.real) || !is_nan(product.imaginary)) return product;
  bool again = false;
  const bool overflowed = is_infinite(a.real * b.real) || is_infinite(a.imaginary * b.imaginary) ||
                          is_infinite(a.real * b.imaginary) || is_infinite(a.imaginary * b.real);
  if (is_infinite(a.real) || is_infinite(a.imaginary)) {
    a = {boxed(a.real), boxed(a.imaginary)};
    b = {no_nan(b.real), no_nan(b.imaginary)};
    again = true;
  }
  if (is_infinite(b.real) || is_infinite(b.imaginary)) {
    b = {boxed(b.real), boxed(b.imaginary)};
    a = {no_nan(a.real), no_nan(a.imaginary)};
    again = true;
  }
  if (!again && overflowed) {
    a = {no_nan(a.real), no_nan(a.imaginary)};
    b = {no_nan(b.real), no_nan(b.imaginary)};
    again = true;
  }
  if (!again) return product;
  const Part zero = 0;
  const Part infinity = Part(1) / zero;
  return {infinity * (a.real * b.real - a.imaginary * b.imaginary),
          infinity * (a.real * b.imaginary + a.imaginary * b.real)};
}

struct Product {
  template <class T>
  static ISTHMUS_ANYWHERE T of(T a, T b) {
    if constexpr (std::is_same_v<T, std::uint16_t>)
      return static_cast<T>(static_cast<unsigned>(a) * b);
    else
      return rounded<T>(number(a) * number(b));
  }
  template <class Part>
  static ISTHMUS_ANYWHERE Complex<Part> of(Complex<Part> a, Complex<Part> b) {
    const Complex<Part> product{a.real * b.real - a.imaginary * b.imaginary,
                                a.real * b.imaginary + a.imaginary * b.real};
    return recovered(product, a, b);
  }
  static ISTHMUS_ANYWHERE Complex<Half> of(Complex<Half> a, Complex<Half> b) {
    const float real = a.real.value() * b.real.value() - a.imaginary.value() * b.imaginary.value();
    const float imaginary = a.real.value() * b.imaginary.value() + a.imaginary.value() * b.real.value();
    return {Half::of(real), Half::of(imaginary)};
  }
};

struct Maximum {
  template <class T>
  static ISTHMUS_ANYWHERE T of(T a, T b) {
    return number(a) > number(b) ? a : b;
  }
};

struct Minimum {
  template <class T>
  static ISTHMUS_ANYWHERE T of(T a, T b) {
    return number(a) < number(b) ? a : b;
  }
};

struct LogicalAnd {
  template <class T>
  static ISTHMUS_ANYWHERE T of(T a, T b) {
    return static_cast<T>(a != 0 && b != 0);
  }
};

struct LogicalOr {
  template <class T>
  static ISTHMUS_ANYWHERE T of(T a, T b) {
    return static_cast<T>(a != 0 || b != 0);
  }
};

struct LogicalXor {
  template <class T>
  static ISTHMUS_ANYWHERE T of(T a, T b) {
    return static_cast<T>((a != 0) != (b != 0));
  }
};

struct BitAnd {
  template <class T>
  static ISTHMUS_ANYWHERE T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct BitOr {
  template <class T>
  static ISTHMUS_ANYWHERE T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct BitXor {
  template <class T>
  static ISTHMUS_ANYWHERE T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

/// A value and an index, of MPI_MINLOC and MPI_MAXLOC, `offset` and `extent` bytes apart. What lies between
/// them is nobody's.
template <class Value, class Index, int offset, int extent>
struct Pair {
  Value value;
  Index index;
};

/// An index as a number that is ordered as it is.
ISTHMUS_ANYWHERE std::int64_t order_of(std::int32_t index) {
  return index;
}
ISTHMUS_ANYWHERE std::int64_t order_of(float index) {
  std::int32_t bits = 0;
  std::memcpy(&bits, &index, sizeof bits);
  return bits < 0 ? bits ^ 0x7fff'ffff : bits;
}
ISTHMUS_ANYWHERE std::int64_t order_of(double index) {
  std::int64_t bits = 0;
  std::memcpy(&bits, &index, sizeof bits);
  return bits < 0 ? bits ^ 0x7fff'ffff'ffff'ffff : bits;
}

struct MaximumPlace {
  template <class T>
  static ISTHMUS_ANYWHERE T of(const T& a, const T& b) {
    const bool left = a.value == b.value ? order_of(a.index) < order_of(b.index) : a.value > b.value;
    return left ? a : b;
  }
};

struct MinimumPlace {
  template <class T>
  static ISTHMUS_ANYWHERE T of(const T& a, const T& b) {
    const bool left = a.value == b.value ? order_of(a.index) < order_of(b.index) : a.value < b.value;
    return left ? a : b;
  }
};

}  // namespace isthmus::kernel
