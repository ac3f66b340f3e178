#include "datatype/basic.hpp"

#include <array>
#include <cstddef>
#include <cwchar>

#include "datatype/float_types.hpp"

namespace isthmus {

namespace {

using enum TypeClass;
using Repr = Representation;

constexpr Repr half = ISTHMUS_HAS_FLOAT16 ? Repr::float16 : Repr::none;
constexpr Repr half_complex = ISTHMUS_HAS_FLOAT16 ? Repr::complex16 : Repr::none;
constexpr Repr quad = ISTHMUS_HAS_FLOAT128 ? Repr::float128 : Repr::none;
constexpr Repr quad_complex = ISTHMUS_HAS_FLOAT128 ? Repr::complex128 : Repr::none;
constexpr Repr wide_char = Repr::int32;
static_assert(sizeof(wchar_t) == 4, "external32 conversion of MPI_WCHAR expects UTF-32 code points");
static_assert(sizeof(long) == 8 && sizeof(long double) == 16, "the sizes below are those of LP64 Linux");

constexpr BasicInfo plain(Basic basic, std::string_view name, int size, TypeClass type_class, Repr repr) {
  const auto bytes = static_cast<std::uint8_t>(size);
  return {basic, name, bytes, bytes, bytes, bytes, type_class, repr, std::nullopt};
}

/// A plain type whose external32 size differs from its size here.
constexpr BasicInfo resized_outside(BasicInfo info, int external32_size) {
  info.external32_size = static_cast<std::uint8_t>(external32_size);
  return info;
}

/// Two parts of one floating type: aligned like one of them.
constexpr BasicInfo complex_of(Basic basic, std::string_view name, int part, Repr repr) {
  BasicInfo info = plain(basic, name, 2 * part, TypeClass::complex, repr);
  info.alignment = static_cast<std::uint8_t>(part);
  return info;
}

struct PairPart {
  Basic basic;
  int size;
  int external32_size;
};

constexpr BasicInfo pair_of(Basic basic, std::string_view name, PairPart value, PairPart index) {
  const int alignment = value.size > index.size ? value.size : index.size;
  const int offset = (value.size + index.size - 1) / index.size * index.size;
  const int extent = (offset + index.size + alignment - 1) / alignment * alignment;
  return {basic,
          name,
          static_cast<std::uint8_t>(value.size + index.size),
          static_cast<std::uint8_t>(extent),
          static_cast<std::uint8_t>(alignment),
          static_cast<std::uint8_t>(value.external32_size + index.external32_size),
          pair,
          Repr::none,
          PairParts{value.basic, index.basic, offset}};
}

constexpr PairPart int_part{Basic::int_, 4, 4};
constexpr PairPart real_part{Basic::real, 4, 4};
constexpr PairPart double_part{Basic::double_precision, 8, 8};
constexpr PairPart integer_part{Basic::integer, 4, 4};

// MPI_CHAR counts as a C integer: the standard excludes it from reductions, but both widespread
// implementations compute with it and programs rely on that.
constexpr std::array table{
    plain(Basic::aint, "MPI_AINT", 8, multi_language, Repr::int64),
    plain(Basic::count, "MPI_COUNT", 8, multi_language, Repr::int64),
    plain(Basic::offset, "MPI_OFFSET", 8, multi_language, Repr::int64),
    plain(Basic::packed, "MPI_PACKED", 1, packed, Repr::uint8),
    plain(Basic::short_, "MPI_SHORT", 2, c_integer, Repr::int16),
    plain(Basic::int_, "MPI_INT", 4, c_integer, Repr::int32),
    resized_outside(plain(Basic::long_, "MPI_LONG", 8, c_integer, Repr::int64), 4),
    plain(Basic::long_long, "MPI_LONG_LONG_INT", 8, c_integer, Repr::int64),
    plain(Basic::unsigned_short, "MPI_UNSIGNED_SHORT", 2, c_integer, Repr::uint16),
    plain(Basic::unsigned_, "MPI_UNSIGNED", 4, c_integer, Repr::uint32),
    resized_outside(plain(Basic::unsigned_long, "MPI_UNSIGNED_LONG", 8, c_integer, Repr::uint64), 4),
    plain(Basic::unsigned_long_long, "MPI_UNSIGNED_LONG_LONG", 8, c_integer, Repr::uint64),
    plain(Basic::float_, "MPI_FLOAT", 4, floating, Repr::float32),
    complex_of(Basic::c_float_complex, "MPI_C_COMPLEX", 4, Repr::complex32),
    complex_of(Basic::cxx_float_complex, "MPI_CXX_FLOAT_COMPLEX", 4, Repr::complex32),
    plain(Basic::double_, "MPI_DOUBLE", 8, floating, Repr::float64),
    complex_of(Basic::c_double_complex, "MPI_C_DOUBLE_COMPLEX", 8, Repr::complex64),
    complex_of(Basic::cxx_double_complex, "MPI_CXX_DOUBLE_COMPLEX", 8, Repr::complex64),
    plain(Basic::logical, "MPI_LOGICAL", 4, TypeClass::logical, Repr::uint32),
    plain(Basic::integer, "MPI_INTEGER", 4, fortran_integer, Repr::int32),
    plain(Basic::real, "MPI_REAL", 4, floating, Repr::float32),
    complex_of(Basic::complex, "MPI_COMPLEX", 4, Repr::complex32),
    plain(Basic::double_precision, "MPI_DOUBLE_PRECISION", 8, floating, Repr::float64),
    complex_of(Basic::double_complex, "MPI_DOUBLE_COMPLEX", 8, Repr::complex64),
    plain(Basic::character, "MPI_CHARACTER", 1, TypeClass::character, Repr::uint8),
    plain(Basic::long_double, "MPI_LONG_DOUBLE", 16, floating, Repr::long_double),
    complex_of(Basic::c_long_double_complex, "MPI_C_LONG_DOUBLE_COMPLEX", 16, Repr::complex_long_double),
    complex_of(Basic::cxx_long_double_complex, "MPI_CXX_LONG_DOUBLE_COMPLEX", 16, Repr::complex_long_double),
    pair_of(Basic::float_int, "MPI_FLOAT_INT", {Basic::float_, 4, 4}, int_part),
    pair_of(Basic::double_int, "MPI_DOUBLE_INT", {Basic::double_, 8, 8}, int_part),
    pair_of(Basic::long_int, "MPI_LONG_INT", {Basic::long_, 8, 4}, int_part),
    pair_of(Basic::two_int, "MPI_2INT", int_part, int_part),
    pair_of(Basic::short_int, "MPI_SHORT_INT", {Basic::short_, 2, 2}, int_part),
    pair_of(Basic::long_double_int, "MPI_LONG_DOUBLE_INT", {Basic::long_double, 16, 16}, int_part),
    pair_of(Basic::two_real, "MPI_2REAL", real_part, real_part),
    pair_of(Basic::two_double_precision, "MPI_2DOUBLE_PRECISION", double_part, double_part),
    pair_of(Basic::two_integer, "MPI_2INTEGER", integer_part, integer_part),
    plain(Basic::c_bool, "MPI_C_BOOL", 1, TypeClass::logical, Repr::uint8),
    plain(Basic::cxx_bool, "MPI_CXX_BOOL", 1, TypeClass::logical, Repr::uint8),
    resized_outside(plain(Basic::wchar, "MPI_WCHAR", 4, TypeClass::character, wide_char), 2),
    plain(Basic::int8, "MPI_INT8_T", 1, c_integer, Repr::int8),
    plain(Basic::uint8, "MPI_UINT8_T", 1, c_integer, Repr::uint8),
    plain(Basic::char_, "MPI_CHAR", 1, c_integer, static_cast<char>(-1) < 0 ? Repr::int8 : Repr::uint8),
    plain(Basic::signed_char, "MPI_SIGNED_CHAR", 1, c_integer, Repr::int8),
    plain(Basic::unsigned_char, "MPI_UNSIGNED_CHAR", 1, c_integer, Repr::uint8),
    plain(Basic::byte, "MPI_BYTE", 1, TypeClass::byte, Repr::uint8),
    plain(Basic::int16, "MPI_INT16_T", 2, c_integer, Repr::int16),
    plain(Basic::uint16, "MPI_UINT16_T", 2, c_integer, Repr::uint16),
    plain(Basic::int32, "MPI_INT32_T", 4, c_integer, Repr::int32),
    plain(Basic::uint32, "MPI_UINT32_T", 4, c_integer, Repr::uint32),
    plain(Basic::int64, "MPI_INT64_T", 8, c_integer, Repr::int64),
    plain(Basic::uint64, "MPI_UINT64_T", 8, c_integer, Repr::uint64),
    plain(Basic::logical1, "MPI_LOGICAL1", 1, TypeClass::logical, Repr::uint8),
    plain(Basic::integer1, "MPI_INTEGER1", 1, fortran_integer, Repr::int8),
    plain(Basic::logical2, "MPI_LOGICAL2", 2, TypeClass::logical, Repr::uint16),
    plain(Basic::integer2, "MPI_INTEGER2", 2, fortran_integer, Repr::int16),
    plain(Basic::real2, "MPI_REAL2", 2, floating, half),
    plain(Basic::logical4, "MPI_LOGICAL4", 4, TypeClass::logical, Repr::uint32),
    plain(Basic::integer4, "MPI_INTEGER4", 4, fortran_integer, Repr::int32),
    plain(Basic::real4, "MPI_REAL4", 4, floating, Repr::float32),
    complex_of(Basic::complex4, "MPI_COMPLEX4", 2, half_complex),
    plain(Basic::logical8, "MPI_LOGICAL8", 8, TypeClass::logical, Repr::uint64),
    plain(Basic::integer8, "MPI_INTEGER8", 8, fortran_integer, Repr::int64),
    plain(Basic::real8, "MPI_REAL8", 8, floating, Repr::float64),
    complex_of(Basic::complex8, "MPI_COMPLEX8", 4, Repr::complex32),
    plain(Basic::logical16, "MPI_LOGICAL16", 16, TypeClass::logical, Repr::uint128),
    plain(Basic::integer16, "MPI_INTEGER16", 16, fortran_integer, Repr::int128),
    plain(Basic::real16, "MPI_REAL16", 16, floating, quad),
    complex_of(Basic::complex16, "MPI_COMPLEX16", 8, Repr::complex64),
    complex_of(Basic::complex32, "MPI_COMPLEX32", 16, quad_complex),
};

constexpr std::uint16_t first_handle = 0x200;
constexpr std::uint16_t handle_range = 0x100;
constexpr std::uint8_t no_entry = 0xff;

/// Position in `table` by handle value.
constexpr auto positions = [] {
  std::array<std::uint8_t, handle_range> result{};
  result.fill(no_entry);
  for (std::size_t i = 0; i < table.size(); ++i) {
    result[static_cast<std::uint16_t>(table[i].basic) - first_handle] = static_cast<std::uint8_t>(i);
  }
  return result;
}();

}  // namespace

const BasicInfo& info(Basic basic) noexcept {
  return table[positions[static_cast<std::uint16_t>(basic) - first_handle]];
}

std::optional<Basic> basic_from_abi(std::uintptr_t handle) noexcept {
  if (handle < first_handle || handle >= first_handle + handle_range) return std::nullopt;
  if (positions[handle - first_handle] == no_entry) return std::nullopt;
  return static_cast<Basic>(handle);
}

detail::BasicTable detail::basic_table() noexcept {
  return {table.data(), static_cast<std::uint16_t>(table.size())};
}

}  // namespace isthmus
