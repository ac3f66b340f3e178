#pragma once

#include <cstdint>
#include <type_traits>

#include "datatype/basic.hpp"
#include "datatype/float_types.hpp"

namespace isthmus {

/// The type of an integer or real representation.
template <class T>
struct Number {
  using Type = T;
};

/// Calls `work(Number<T>{})` with the C++ type of an integer or real representation; otherwise returns
/// `otherwise`.
template <class Work, class Value>
constexpr Value with_number(Representation representation, Value otherwise, Work&& work) {
  switch (representation) {
    case Representation::int8:
      return work(Number<std::int8_t>{});
    case Representation::int16:
      return work(Number<std::int16_t>{});
    case Representation::int32:
      return work(Number<std::int32_t>{});
    case Representation::int64:
      return work(Number<std::int64_t>{});
    case Representation::int128:
      return work(Number<Int128>{});
    case Representation::uint8:
      return work(Number<std::uint8_t>{});
    case Representation::uint16:
      return work(Number<std::uint16_t>{});
    case Representation::uint32:
      return work(Number<std::uint32_t>{});
    case Representation::uint64:
      return work(Number<std::uint64_t>{});
    case Representation::uint128:
      return work(Number<UInt128>{});
#if ISTHMUS_HAS_FLOAT16
    case Representation::float16:
      return work(Number<Float16>{});
#endif
    case Representation::float32:
      return work(Number<float>{});
    case Representation::float64:
      return work(Number<double>{});
    case Representation::long_double:
      return work(Number<long double>{});
#if ISTHMUS_HAS_FLOAT128
    case Representation::float128:
      return work(Number<Float128>{});
#endif
    default:
      return otherwise;
  }
}

/// The representation of one part of a complex one; `none` for others.
constexpr Representation part_of(Representation representation) {
  switch (representation) {
    case Representation::complex16:
      return Representation::float16;
    case Representation::complex32:
      return Representation::float32;
    case Representation::complex64:
      return Representation::float64;
    case Representation::complex_long_double:
      return Representation::long_double;
    case Representation::complex128:
      return Representation::float128;
    default:
      return Representation::none;
  }
}

}  // namespace isthmus
