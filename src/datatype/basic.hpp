#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace isthmus {

/// The named predefined datatypes (MPI 5.0, sections 3.2.2, 6.9.4 and 19.1.9). The values are those of the
/// handles in the standard ABI, so that `abi/` converts by a cast.
enum class Basic : std::uint16_t {
  aint = 0x201,
  count = 0x202,
  offset = 0x203,
  packed = 0x207,
  short_ = 0x208,
  int_ = 0x209,
  long_ = 0x20a,
  long_long = 0x20b,
  unsigned_short = 0x20c,
  unsigned_ = 0x20d,
  unsigned_long = 0x20e,
  unsigned_long_long = 0x20f,
  float_ = 0x210,
  c_float_complex = 0x212,
  cxx_float_complex = 0x213,
  double_ = 0x214,
  c_double_complex = 0x216,
  cxx_double_complex = 0x217,
  logical = 0x218,
  integer = 0x219,
  real = 0x21a,
  complex = 0x21b,
  double_precision = 0x21c,
  double_complex = 0x21d,
  character = 0x21e,
  long_double = 0x220,
  c_long_double_complex = 0x224,
  cxx_long_double_complex = 0x225,
  float_int = 0x228,
  double_int = 0x229,
  long_int = 0x22a,
  two_int = 0x22b,
  short_int = 0x22c,
  long_double_int = 0x22d,
  two_real = 0x230,
  two_double_precision = 0x231,
  two_integer = 0x232,
  c_bool = 0x238,
  cxx_bool = 0x239,
  wchar = 0x23c,
  int8 = 0x240,
  uint8 = 0x241,
  char_ = 0x243,
  signed_char = 0x244,
  unsigned_char = 0x245,
  byte = 0x247,
  int16 = 0x248,
  uint16 = 0x249,
  int32 = 0x250,
  uint32 = 0x251,
  int64 = 0x258,
  uint64 = 0x259,
  logical1 = 0x2c0,
  integer1 = 0x2c1,
  logical2 = 0x2c8,
  integer2 = 0x2c9,
  real2 = 0x2ca,
  logical4 = 0x2d0,
  integer4 = 0x2d1,
  real4 = 0x2d2,
  complex4 = 0x2d3,
  logical8 = 0x2d8,
  integer8 = 0x2d9,
  real8 = 0x2da,
  complex8 = 0x2db,
  logical16 = 0x2e0,
  integer16 = 0x2e1,
  real16 = 0x2e2,
  complex16 = 0x2e3,
  complex32 = 0x2eb,
};

/// The groups by which the standard says what an operation accepts (MPI 5.0, section 6.9.2).
enum class TypeClass : std::uint8_t {
  c_integer,
  fortran_integer,
  floating,
  logical,
  complex,
  byte,
  multi_language,
  character,  // no operation is defined on these
  packed,
  pair,  // value and index, for MPI_MINLOC and MPI_MAXLOC
};

/// What the bits of an element mean on this machine.
enum class Representation : std::uint8_t {
  none,  // nothing to compute with: pairs, or a type that this compiler lacks
  int8,
  int16,
  int32,
  int64,
  int128,
  uint8,
  uint16,
  uint32,
  uint64,
  uint128,
  float16,
  float32,
  float64,
  long_double,
  float128,
  complex16,  // named by the width of one part
  complex32,
  complex64,
  complex_long_double,
  complex128,
};
inline constexpr int representation_count = static_cast<int>(Representation::complex128) + 1;

/// The two parts of a pair type: as if made by MPI_Type_create_struct of one value and one index.
struct PairParts {
  Basic value;
  Basic index;
  std::int64_t index_offset;
};

struct BasicInfo {
  Basic basic;
  std::string_view name;         // "MPI_INT"
  std::uint8_t size;             // bytes of data: a pair's has no gaps
  std::uint8_t extent;           // bytes from one element to the next
  std::uint8_t alignment;        // of the C or Fortran type, for the extent of structs
  std::uint8_t external32_size;  // MPI 5.0, table 14.2
  TypeClass type_class;
  Representation representation;
  std::optional<PairParts> pair;
};

/// The facts about one predefined type on this platform. Fortran types are gfortran's with its default kinds.
[[nodiscard]] const BasicInfo& info(Basic basic) noexcept;

/// The predefined type with that handle value of the standard ABI, if there is one.
[[nodiscard]] std::optional<Basic> basic_from_abi(std::uintptr_t handle) noexcept;

/// Calls `visit(const BasicInfo&)` for every predefined type.
template <class Visit>
void for_each_basic(Visit&& visit);

namespace detail {
struct BasicTable {
  const BasicInfo* data;
  std::uint16_t size;
};
[[nodiscard]] BasicTable basic_table() noexcept;
}  // namespace detail

template <class Visit>
void for_each_basic(Visit&& visit) {
  const detail::BasicTable table = detail::basic_table();
  for (std::uint16_t i = 0; i < table.size; ++i)
    visit(table.data[i]);
}

}  // namespace isthmus
