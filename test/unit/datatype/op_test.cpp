// Every predefined operation on every predefined datatype: computed where the standard allows it, in the
// right order, and refused with MPI_ERR_OP elsewhere.

#include "datatype/op.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "datatype/float_types.hpp"
#include "datatype/make/construct.hpp"
#include "datatype/make/unnamed.hpp"

namespace isthmus::test::op_test {
namespace {

constexpr OpCode all_codes[] = {OpCode::sum,    OpCode::min,    OpCode::max,     OpCode::prod, OpCode::band,
                                OpCode::bor,    OpCode::bxor,   OpCode::land,    OpCode::lor,  OpCode::lxor,
                                OpCode::minloc, OpCode::maxloc, OpCode::replace, OpCode::no_op};

/// The allowed pairs as section 6.9.2 of the standard lists them, by operation and class.
bool allowed(OpCode code, TypeClass type_class) {
  using enum TypeClass;
  using enum OpCode;
  using Classes = std::set<TypeClass>;
  const Classes ordered{c_integer, fortran_integer, floating, multi_language};
  const Classes numbers{c_integer, fortran_integer, floating, complex, multi_language};
  const Classes logicals{c_integer, TypeClass::logical};
  const Classes bits{c_integer, fortran_integer, TypeClass::byte, multi_language};
  const std::map<OpCode, Classes> table{
      {max, ordered},   {min, ordered}, {sum, numbers}, {prod, numbers}, {land, logicals}, {lor, logicals},
      {lxor, logicals}, {band, bits},   {bor, bits},    {bxor, bits},    {minloc, {pair}}, {maxloc, {pair}},
  };
  const auto row = table.find(code);
  return row == table.end() || row->second.contains(type_class);
}

TEST(Op, EveryHandleOfTheAbiIsFoundAndNoOther) {
  int found = 0;
  for (std::uintptr_t handle = 0; handle < 0x100; ++handle) {
    if (const auto code = op_from_abi(handle)) {
      ++found;
      EXPECT_EQ(Op::predefined(*code).code(), code);
      EXPECT_TRUE(Op::predefined(*code).commutative());
    }
  }
  EXPECT_EQ(found, 14);
  EXPECT_EQ(Op::predefined(OpCode::lxor).name(), "MPI_LXOR");
}

TEST(Op, IsDefinedOnExactlyTheStandardsClasses) {
  for (const OpCode code : all_codes) {
    for_each_basic([&](const BasicInfo& basic) {
      Datatype& type = Datatype::basic(basic.basic);
      const Op& op = Op::predefined(code);
      EXPECT_EQ(op.accepts(type), allowed(code, basic.type_class)) << op.name() << " " << basic.name;
      if (op.accepts(type)) return;
      alignas(16) std::byte a[64] = {}, b[64] = {};
      const auto result = op.reduce(a, b, 1, type);
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().error_class(), ErrorClass::op);
      EXPECT_NE(result.error().text().find(basic.name), std::string::npos);
    });
  }
}

TEST(Op, IsNotDefinedOnDerivedTypes) {
  const auto derived = contiguous_type(2, Datatype::basic(Basic::int_), Form::small);
  ASSERT_TRUE((*derived)->commit());
  for (const OpCode code : all_codes)
    EXPECT_FALSE(Op::predefined(code).accepts(**derived));
}

/// One operation on numbers as the standard's table reads.
template <class T>
T apply(OpCode code, T a, T b) {
  constexpr bool is_integer =
      std::is_integral_v<T> || std::is_same_v<T, Int128> || std::is_same_v<T, UInt128>;
  switch (code) {
    case OpCode::sum:
      if constexpr (is_integer) return static_cast<T>(static_cast<UInt128>(a) + static_cast<UInt128>(b));
      return static_cast<T>(a + b);
    case OpCode::prod:
      if constexpr (is_integer) return static_cast<T>(static_cast<UInt128>(a) * static_cast<UInt128>(b));
      return static_cast<T>(a * b);
    case OpCode::max:
      return a < b ? b : a;
    case OpCode::min:
      return b < a ? b : a;
    case OpCode::land:
      return static_cast<T>(a != 0 && b != 0 ? 1 : 0);
    case OpCode::lor:
      return static_cast<T>(a != 0 || b != 0 ? 1 : 0);
    case OpCode::lxor:
      return static_cast<T>((a != 0) != (b != 0) ? 1 : 0);
    case OpCode::replace:
      return a;
    case OpCode::no_op:
      return b;
    default:
      break;
  }
  if constexpr (is_integer) {
    if (code == OpCode::band) return static_cast<T>(a & b);
    if (code == OpCode::bor) return static_cast<T>(a | b);
    if (code == OpCode::bxor) return static_cast<T>(a ^ b);
  }
  return T{};
}

template <class T>
struct Complex {
  T real, imaginary;
};

template <class T>
Complex<T> apply(OpCode code, Complex<T> a, Complex<T> b) {
  switch (code) {
    case OpCode::sum:
      return {static_cast<T>(a.real + b.real), static_cast<T>(a.imaginary + b.imaginary)};
    case OpCode::prod:
      return {static_cast<T>(a.real * b.real - a.imaginary * b.imaginary),
              static_cast<T>(a.real * b.imaginary + a.imaginary * b.real)};
    default:
      return code == OpCode::replace ? a : b;
  }
}

template <class T>
struct Values {
  static T make(std::mt19937& random) {
    // Small integers are exact in every type, so that results can be compared bit by bit.
    return static_cast<T>(static_cast<int>(random() % 17) - (static_cast<T>(-1) < static_cast<T>(0) ? 8 : 0));
  }
};
template <class T>
struct Values<Complex<T>> {
  static Complex<T> make(std::mt19937& random) { return {Values<T>::make(random), Values<T>::make(random)}; }
};

template <class T>
bool same(T a, T b) {
  return a == b;
}
template <class T>
bool same(Complex<T> a, Complex<T> b) {
  return a.real == b.real && a.imaginary == b.imaginary;
}

/// All operations on `basic`, at lengths around those of vectors, unaligned too, with every allowed aliasing.
template <class T>
void check_basic(Basic basic) {
  std::mt19937 random(static_cast<unsigned>(basic));
  Datatype& type = Datatype::basic(basic);
  ASSERT_EQ(type.size(), static_cast<std::int64_t>(sizeof(T)));
  for (const OpCode code : all_codes) {
    const Op& op = Op::predefined(code);
    if (!op.accepts(type)) continue;
    for (const std::size_t n : {0u, 1u, 3u, 17u, 64u, 257u}) {
      std::vector<T> a(n), b(n), expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        a[i] = Values<T>::make(random);
        b[i] = Values<T>::make(random);
        expected[i] = apply(code, a[i], b[i]);
      }
      const auto matches = [&](const std::byte* result) {
        for (std::size_t i = 0; i < n; ++i) {
          T value;
          std::memcpy(&value, result + i * sizeof(T), sizeof(T));
          if (!same(value, expected[i])) return false;
        }
        return true;
      };
      for (const std::size_t shift : {0u, 1u}) {
        std::vector<std::byte> left(n * sizeof(T) + 1), right(n * sizeof(T) + 1), out(n * sizeof(T) + 1);
        const auto fill = [&] {
          if (n == 0) return;
          std::memcpy(left.data() + shift, a.data(), n * sizeof(T));
          std::memcpy(right.data() + shift, b.data(), n * sizeof(T));
        };
        std::byte *l = left.data() + shift, *r = right.data() + shift, *o = out.data() + shift;
        const auto count = static_cast<std::int64_t>(n);
        fill();
        ASSERT_TRUE(op.reduce(l, r, o, count, type));
        ASSERT_TRUE(matches(o)) << op.name() << " " << type.default_name() << " " << n;
        ASSERT_TRUE(op.reduce(l, r, count, type));
        ASSERT_TRUE(matches(r)) << op.name() << " " << type.default_name() << " " << n;
        fill();
        ASSERT_TRUE(op.reduce(l, r, l, count, type));
        ASSERT_TRUE(matches(l)) << op.name() << " " << type.default_name() << " " << n;
      }
    }
  }
}

void check_by_representation(const BasicInfo& basic) {
  switch (basic.representation) {
#define CASE(name, ...)      \
  case Representation::name: \
    return check_basic<__VA_ARGS__>(basic.basic)
    CASE(int8, std::int8_t);
    CASE(int16, std::int16_t);
    CASE(int32, std::int32_t);
    CASE(int64, std::int64_t);
    CASE(int128, Int128);
    CASE(uint8, std::uint8_t);
    CASE(uint16, std::uint16_t);
    CASE(uint32, std::uint32_t);
    CASE(uint64, std::uint64_t);
    CASE(uint128, UInt128);
    CASE(float32, float);
    CASE(float64, double);
    CASE(long_double, long double);
    CASE(complex32, Complex<float>);
    CASE(complex64, Complex<double>);
    CASE(complex_long_double, Complex<long double>);
#if ISTHMUS_HAS_FLOAT16
    CASE(float16, Float16);
    CASE(complex16, Complex<Float16>);
#endif
#if ISTHMUS_HAS_FLOAT128
    CASE(float128, Float128);
    CASE(complex128, Complex<Float128>);
#endif
#undef CASE
    default:
      return;
  }
}

TEST(Op, ComputesEveryTypeElementByElement) {
  for_each_basic([](const BasicInfo& basic) { check_by_representation(basic); });
}

TEST(Op, IntegersWrapAround) {
  const std::int16_t a = INT16_MAX;
  std::int16_t b = 1;
  ASSERT_TRUE(Op::predefined(OpCode::sum).reduce(&a, &b, 1, Datatype::basic(Basic::short_)));
  EXPECT_EQ(b, INT16_MIN);
  const std::uint16_t c = 0xffff;
  std::uint16_t d = 0xffff;
  ASSERT_TRUE(Op::predefined(OpCode::prod).reduce(&c, &d, 1, Datatype::basic(Basic::uint16)));
  EXPECT_EQ(d, 1);
}

TEST(Op, ComplexInfinitiesSurviveAProduct) {
  const std::complex<double> a(INFINITY, 0.0);
  std::complex<double> b(1.0, 0.0);
  ASSERT_TRUE(Op::predefined(OpCode::prod).reduce(&a, &b, 1, Datatype::basic(Basic::c_double_complex)));
  EXPECT_TRUE(std::isinf(b.real()));
}

template <class Value, class Index>
struct Pair {
  Value value;
  Index index;
};

template <class Value, class Index>
void check_pairs(Datatype& type) {
  using P = Pair<Value, Index>;
  ASSERT_EQ(type.extent(), static_cast<std::int64_t>(sizeof(P)));
  std::mt19937 random(3);
  for (const OpCode code : {OpCode::maxloc, OpCode::minloc}) {
    std::vector<P> a(200), b(200), out(200);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = {static_cast<Value>(random() % 4), static_cast<Index>(random() % 100)};
      b[i] = {static_cast<Value>(random() % 4), static_cast<Index>(random() % 100)};
    }
    ASSERT_TRUE(Op::predefined(code).reduce(a.data(), b.data(), out.data(), 200, type));
    for (std::size_t i = 0; i < a.size(); ++i) {
      const bool left = code == OpCode::maxloc ? a[i].value > b[i].value : a[i].value < b[i].value;
      const P expected = a[i].value == b[i].value ? P{a[i].value, std::min(a[i].index, b[i].index)}
                         : left                   ? a[i]
                                                  : b[i];
      ASSERT_EQ(out[i].value, expected.value);
      ASSERT_EQ(out[i].index, expected.index);
    }
    ASSERT_TRUE(Op::predefined(code).reduce(a.data(), b.data(), 200, type));
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(b[i].index, out[i].index);
  }
}

TEST(Op, LocatesInEveryPairType) {
  check_pairs<float, int>(Datatype::basic(Basic::float_int));
  check_pairs<double, int>(Datatype::basic(Basic::double_int));
  check_pairs<long, int>(Datatype::basic(Basic::long_int));
  check_pairs<int, int>(Datatype::basic(Basic::two_int));
  check_pairs<short, int>(Datatype::basic(Basic::short_int));
  check_pairs<long double, int>(Datatype::basic(Basic::long_double_int));
  check_pairs<float, float>(Datatype::basic(Basic::two_real));
  check_pairs<double, double>(Datatype::basic(Basic::two_double_precision));
  check_pairs<int, int>(Datatype::basic(Basic::two_integer));
}

TEST(Op, ComputesUnnamedPredefinedTypes) {
  const double a = 1.5;
  double b = 2;
  F90Types types;
  ASSERT_TRUE(Op::predefined(OpCode::sum).reduce(&a, &b, 1, **types.real(15, unspecified)));
  EXPECT_EQ(b, 3.5);
}

TEST(Op, UserFunctionsSeeTheOrderOfTheOperands) {
  const Ref<Op> op = Op::user(
      [](const void* in, void* inout, std::int64_t count, const Datatype&) {
        for (std::int64_t i = 0; i < count; ++i) {
          int& value = static_cast<int*>(inout)[i];
          value = 10 * static_cast<const int*>(in)[i] + value;
        }
      },
      false);
  EXPECT_FALSE(op->commutative());
  EXPECT_FALSE(op->is_predefined());
  const int a[] = {1, 2};
  int b[] = {3, 4}, out[] = {0, 0};
  ASSERT_TRUE(op->reduce(a, b, out, 2, Datatype::basic(Basic::int_)));
  EXPECT_EQ(out[0], 13);
  EXPECT_EQ(out[1], 24);
  EXPECT_EQ(b[0], 3);
  ASSERT_TRUE(op->reduce(a, b, 2, Datatype::basic(Basic::int_)));
  EXPECT_EQ(b[1], 24);
}

TEST(Op, UserFunctionsWorkOnDerivedTypesWithGaps) {
  const auto type = resized_type(0, 8, Datatype::basic(Basic::int_), Form::small);
  ASSERT_TRUE((*type)->commit());
  const Ref<Op> op = Op::user(
      [](const void* in, void* inout, std::int64_t count, const Datatype& seen) {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t at = i * seen.extent() / 4;
          static_cast<int*>(inout)[at] += static_cast<const int*>(in)[at];
        }
      },
      true);
  const int a[] = {1, -1, 2, -1}, b[] = {10, -2, 20, -2};
  int out[] = {0, 7, 0, 7};
  ASSERT_TRUE(op->reduce(a, b, out, 2, **type));
  EXPECT_EQ(out[0], 11);
  EXPECT_EQ(out[1], 7);
  EXPECT_EQ(out[2], 22);
  EXPECT_EQ(out[3], 7);
}

}  // namespace
}  // namespace isthmus::test::op_test
