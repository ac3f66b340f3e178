#include "datatype/make/unnamed.hpp"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "datatype/make/maker.hpp"

namespace isthmus {

namespace {

/// A kind of real that gfortran has: decimal precision, decimal exponent range, and the types with that data.
struct RealKind {
  int precision;
  int range;
  Basic real;
  Basic complex;
};

constexpr std::array real_kinds{
    RealKind{6, 37, Basic::real4, Basic::complex8},
    RealKind{15, 307, Basic::real8, Basic::complex16},
#if __LDBL_MANT_DIG__ == 64
    RealKind{18, 4931, Basic::long_double, Basic::c_long_double_complex},
#endif
    RealKind{33, 4931, Basic::real16, Basic::complex32},
};

struct IntegerKind {
  int range;
  Basic integer;
};

constexpr std::array integer_kinds{
    IntegerKind{2, Basic::integer1},  IntegerKind{4, Basic::integer2},   IntegerKind{9, Basic::integer4},
    IntegerKind{18, Basic::integer8}, IntegerKind{38, Basic::integer16},
};

std::string wanted(int value) {
  return value == unspecified ? "MPI_UNDEFINED" : std::to_string(value);
}

struct Sized {
  SizeClass size_class;
  int size;
  Basic basic;
};

constexpr std::array sized_types{
    Sized{SizeClass::logical, 1, Basic::logical1},   Sized{SizeClass::logical, 2, Basic::logical2},
    Sized{SizeClass::logical, 4, Basic::logical4},   Sized{SizeClass::logical, 8, Basic::logical8},
    Sized{SizeClass::logical, 16, Basic::logical16}, Sized{SizeClass::integer, 1, Basic::integer1},
    Sized{SizeClass::integer, 2, Basic::integer2},   Sized{SizeClass::integer, 4, Basic::integer4},
    Sized{SizeClass::integer, 8, Basic::integer8},   Sized{SizeClass::integer, 16, Basic::integer16},
    Sized{SizeClass::real, 2, Basic::real2},         Sized{SizeClass::real, 4, Basic::real4},
    Sized{SizeClass::real, 8, Basic::real8},         Sized{SizeClass::real, 16, Basic::real16},
    Sized{SizeClass::complex, 4, Basic::complex4},   Sized{SizeClass::complex, 8, Basic::complex8},
    Sized{SizeClass::complex, 16, Basic::complex16}, Sized{SizeClass::complex, 32, Basic::complex32},
};

std::optional<Basic> named_pair(Basic value, Basic index) {
  std::optional<Basic> found;
  for_each_basic([&](const BasicInfo& info) {
    if (info.pair && info.pair->value == value && info.pair->index == index) found = info.basic;
  });
  return found;
}

}  // namespace

Result<Datatype*> F90Types::find_or_make(Basic basic, Combiner combiner, std::vector<int> arguments) {
  Ref<Datatype>& entry = made_[{combiner, arguments}];
  if (!entry) {
    Contents contents;
    contents.combiner = combiner;
    contents.integers = std::move(arguments);
    Result<Ref<Datatype>> type = Datatype::Maker::unnamed(basic, std::move(contents));
    if (!type) return std::unexpected(std::move(type).error());
    entry = *std::move(type);
  }
  return entry.get();
}

Result<Datatype*> F90Types::floating(Combiner combiner, int precision, int range) {
  if (precision == unspecified && range == unspecified) {
    return fail(ErrorClass::arg, "neither precision nor range is given");
  }
  for (const RealKind& kind : real_kinds) {
    const bool precise = precision == unspecified || precision <= kind.precision;
    const bool ranges = range == unspecified || range <= kind.range;
    if (!precise || !ranges) continue;
    const Basic basic = combiner == Combiner::f90_real ? kind.real : kind.complex;
    return find_or_make(basic, combiner, {precision, range});
  }
  return fail(ErrorClass::arg, "no real has precision " + wanted(precision) + " and range " + wanted(range));
}

Result<Datatype*> F90Types::real(int precision, int range) {
  return floating(Combiner::f90_real, precision, range);
}

Result<Datatype*> F90Types::complex(int precision, int range) {
  return floating(Combiner::f90_complex, precision, range);
}

Result<Datatype*> F90Types::integer(int range) {
  for (const IntegerKind& kind : integer_kinds) {
    if (range == unspecified || range > kind.range) continue;
    return find_or_make(kind.integer, Combiner::f90_integer, {range});
  }
  return fail(ErrorClass::arg, "no integer has range " + wanted(range));
}

Result<Datatype*> match_size_type(SizeClass size_class, int size) {
  for (const Sized& sized : sized_types) {
    if (sized.size_class == size_class && sized.size == size) return &Datatype::basic(sized.basic);
  }
  return fail(ErrorClass::arg, "no type of class " + std::to_string(static_cast<int>(size_class)) + " has " +
                                   std::to_string(size) + " bytes");
}

Result<Datatype*> value_index_type(Datatype& value, Datatype& index) {
  if (!value.is_predefined() || !index.is_predefined()) {
    return fail(ErrorClass::type, "value and index types must be predefined");
  }
  if (!value.as_basic() || !index.as_basic()) return nullptr;
  const std::optional<Basic> named = named_pair(*value.as_basic(), *index.as_basic());
  return named ? &Datatype::basic(*named) : nullptr;
}

}  // namespace isthmus
