#pragma once

#include <cstdint>

#include "kernels/body/operations.hpp"

/// The kernels that combine: X(operation, type, name of the operation, name of the type). A kernel is called
/// isthmus_OPERATION_TYPE. Operations that treat signed and unsigned integers alike have one for both; a sum
/// of complex numbers is one of twice as many parts.

#define ISTHMUS_REDUCE_UNSIGNED(X, operation, name) \
  X(operation, std::uint8_t, name, uint8)           \
  X(operation, std::uint16_t, name, uint16)         \
  X(operation, std::uint32_t, name, uint32)         \
  X(operation, std::uint64_t, name, uint64)

#define ISTHMUS_REDUCE_INTEGERS(X, operation, name) \
  ISTHMUS_REDUCE_UNSIGNED(X, operation, name)       \
  X(operation, ::isthmus::kernel::Wide, name, uint128)

#define ISTHMUS_REDUCE_SIGNED(X, operation, name) \
  X(operation, std::int8_t, name, int8)           \
  X(operation, std::int16_t, name, int16)         \
  X(operation, std::int32_t, name, int32)         \
  X(operation, std::int64_t, name, int64)         \
  X(operation, ::isthmus::kernel::SignedWide, name, int128)

#define ISTHMUS_REDUCE_FLOATING(X, operation, name)    \
  X(operation, ::isthmus::kernel::Half, name, float16) \
  X(operation, float, name, float32)                   \
  X(operation, double, name, float64)

#define ISTHMUS_REDUCE_COMPLEX(X, operation, name)                                   \
  X(operation, ::isthmus::kernel::Complex<::isthmus::kernel::Half>, name, complex16) \
  X(operation, ::isthmus::kernel::Complex<float>, name, complex32)                   \
  X(operation, ::isthmus::kernel::Complex<double>, name, complex64)

#define ISTHMUS_REDUCE_PAIRS(X, operation, name)                                \
  X(operation, ISTHMUS_PAIR(float, std::int32_t, 4, 8), name, float_int)        \
  X(operation, ISTHMUS_PAIR(double, std::int32_t, 8, 16), name, double_int)     \
  X(operation, ISTHMUS_PAIR(std::int64_t, std::int32_t, 8, 16), name, long_int) \
  X(operation, ISTHMUS_PAIR(std::int32_t, std::int32_t, 4, 8), name, two_int)   \
  X(operation, ISTHMUS_PAIR(std::int16_t, std::int32_t, 4, 8), name, short_int) \
  X(operation, ISTHMUS_PAIR(float, float, 4, 8), name, two_real)                \
  X(operation, ISTHMUS_PAIR(double, double, 8, 16), name, two_double)

#define ISTHMUS_PAIR(...) ::isthmus::kernel::Pair<__VA_ARGS__>

#define ISTHMUS_REDUCE_KERNELS(X)               \
  ISTHMUS_REDUCE_INTEGERS(X, Sum, sum)          \
  ISTHMUS_REDUCE_FLOATING(X, Sum, sum)          \
  ISTHMUS_REDUCE_INTEGERS(X, Product, prod)     \
  ISTHMUS_REDUCE_FLOATING(X, Product, prod)     \
  ISTHMUS_REDUCE_COMPLEX(X, Product, prod)      \
  ISTHMUS_REDUCE_UNSIGNED(X, Maximum, max)      \
  ISTHMUS_REDUCE_SIGNED(X, Maximum, max)        \
  ISTHMUS_REDUCE_FLOATING(X, Maximum, max)      \
  ISTHMUS_REDUCE_UNSIGNED(X, Minimum, min)      \
  ISTHMUS_REDUCE_SIGNED(X, Minimum, min)        \
  ISTHMUS_REDUCE_FLOATING(X, Minimum, min)      \
  ISTHMUS_REDUCE_INTEGERS(X, LogicalAnd, land)  \
  ISTHMUS_REDUCE_INTEGERS(X, LogicalOr, lor)    \
  ISTHMUS_REDUCE_INTEGERS(X, LogicalXor, lxor)  \
  X(BitAnd, std::uint64_t, band, uint64)        \
  X(BitAnd, std::uint8_t, band, uint8)          \
  X(BitOr, std::uint64_t, bor, uint64)          \
  X(BitOr, std::uint8_t, bor, uint8)            \
  X(BitXor, std::uint64_t, bxor, uint64)        \
  X(BitXor, std::uint8_t, bxor, uint8)          \
  ISTHMUS_REDUCE_PAIRS(X, MaximumPlace, maxloc) \
  ISTHMUS_REDUCE_PAIRS(X, MinimumPlace, minloc)
