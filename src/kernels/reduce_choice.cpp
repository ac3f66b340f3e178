#include "kernels/reduce_choice.hpp"

#include <array>

#include "datatype/number_types.hpp"
#include "kernels/body/reduce.hpp"
#include "kernels/body/reduce_list.hpp"

namespace isthmus {
namespace {

/// What the kernels are for, by the names in reduce_list.hpp.
enum class Elements : std::uint8_t {
  uint8,
  uint16,
  uint32,
  uint64,
  uint128,
  int8,
  int16,
  int32,
  int64,
  int128,
  float16,
  float32,
  float64,
  complex16,
  complex32,
  complex64,
  float_int,
  double_int,
  long_int,
  two_int,
  short_int,
  two_real,
  two_double,
};

struct Entry {
  OpCode code;
  Elements elements;
  std::uint8_t bytes;
  std::uint8_t alignment;
  bool has_vectors;
  const char* name;
  const char* meeting;
};

#define ISTHMUS_ENTRY_(operation, type, operation_name, type_name) \
  Entry{OpCode::operation_name,                                    \
        Elements::type_name,                                       \
        kernel::Element<type>::extent,                             \
        alignof(type),                                             \
        kernel::Element<type>::has_vectors,                        \
        "isthmus_" #operation_name "_" #type_name,                 \
        "isthmus_meet_" #operation_name "_" #type_name},
constexpr std::array entries{ISTHMUS_REDUCE_KERNELS(ISTHMUS_ENTRY_)};
#undef ISTHMUS_ENTRY_

struct Wanted {
  Elements elements;
  std::uint32_t factor = 1;
};

bool is_bitwise(OpCode code) {
  return code == OpCode::band || code == OpCode::bor || code == OpCode::bxor;
}

/// What treats signed integers as unsigned ones.
bool is_unsigned(OpCode code) {
  return code != OpCode::max && code != OpCode::min;
}

std::optional<Elements> integers(Representation representation, bool as_unsigned) {
  switch (representation) {
    case Representation::int8:
      return as_unsigned ? Elements::uint8 : Elements::int8;
    case Representation::int16:
      return as_unsigned ? Elements::uint16 : Elements::int16;
    case Representation::int32:
      return as_unsigned ? Elements::uint32 : Elements::int32;
    case Representation::int64:
      return as_unsigned ? Elements::uint64 : Elements::int64;
    case Representation::int128:
      return as_unsigned ? Elements::uint128 : Elements::int128;
    case Representation::uint8:
      return Elements::uint8;
    case Representation::uint16:
      return Elements::uint16;
    case Representation::uint32:
      return Elements::uint32;
    case Representation::uint64:
      return Elements::uint64;
    case Representation::uint128:
      return Elements::uint128;
    default:
      return std::nullopt;
  }
}

std::optional<Elements> numbers(Representation representation) {
  switch (representation) {
    case Representation::float16:
      return Elements::float16;
    case Representation::float32:
      return Elements::float32;
    case Representation::float64:
      return Elements::float64;
    case Representation::complex16:
      return Elements::complex16;
    case Representation::complex32:
      return Elements::complex32;
    case Representation::complex64:
      return Elements::complex64;
    default:
      return std::nullopt;
  }
}

std::optional<Wanted> wanted(OpCode code, const BasicInfo& facts) {
  if (is_bitwise(code)) {
    if (facts.size % sizeof(std::uint64_t) == 0)
      return Wanted{Elements::uint64, facts.size / static_cast<std::uint32_t>(sizeof(std::uint64_t))};
    return Wanted{Elements::uint8, facts.size};
  }
  const Representation part = part_of(facts.representation);
  const bool as_parts = code == OpCode::sum && part != Representation::none;
  const Representation representation = as_parts ? part : facts.representation;
  auto elements = integers(representation, is_unsigned(code));
  if (!elements) elements = numbers(representation);
  if (!elements) return std::nullopt;
  return Wanted{*elements, as_parts ? 2U : 1U};
}

/// Pair types whose parts lie as those of the kernels do.
std::optional<Wanted> wanted(const PairParts& parts, std::int64_t extent) {
  struct Known {
    Representation value, index;
    std::int64_t offset, extent;
    Elements elements;
  };
  using enum Representation;
  constexpr std::array known{
      Known{float32, int32, 4, 8, Elements::float_int},
      Known{float64, int32, 8, 16, Elements::double_int},
      Known{int64, int32, 8, 16, Elements::long_int},
      Known{int32, int32, 4, 8, Elements::two_int},
      Known{int16, int32, 4, 8, Elements::short_int},
      Known{float32, float32, 4, 8, Elements::two_real},
      Known{float64, float64, 8, 16, Elements::two_double},
  };
  const Representation value = info(parts.value).representation;
  const Representation index = info(parts.index).representation;
  for (const Known& each : known)
    if (each.value == value && each.index == index && each.offset == parts.index_offset &&
        each.extent == extent)
      return Wanted{each.elements};
  return std::nullopt;
}

}  // namespace

std::optional<ReduceChoice> choose_reduction(const Op& op, const Datatype& type) noexcept {
  if (!op.code() || !op.accepts(type)) return std::nullopt;
  const auto what =
      type.as_pair() ? wanted(*type.as_pair(), type.extent()) : wanted(*op.code(), info(*type.as_basic()));
  if (!what) return std::nullopt;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (entry.code == *op.code() && entry.elements == what->elements)
      return ReduceChoice{.name = entry.name,
                          .meeting = entry.meeting,
                          .bytes = entry.bytes,
                          .alignment = entry.alignment,
                          .factor = what->factor,
                          .number = static_cast<std::uint16_t>(i),
                          .has_vectors = entry.has_vectors};
  }
  return std::nullopt;
}

std::size_t reduction_count() noexcept {
  return entries.size();
}

const char* reduction_name(std::size_t i) noexcept {
  return entries[i].name;
}

const char* meeting_name(std::size_t i) noexcept {
  return entries[i].meeting;
}

}  // namespace isthmus
