// MPI 5.0, section 20.3: what this library takes the types of Fortran to be. They are gfortran's with its
// default kinds and cannot be changed: setting them to what they are succeeds, to anything else fails.

#include <mpi.h>

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "datatype/basic.hpp"

namespace isthmus::abi {
namespace {

struct Key {
  std::string_view name;
  Basic basic;
};
constexpr auto sizes = std::to_array<Key>({
    {"mpi_logical_size", Basic::logical},
    {"mpi_integer_size", Basic::integer},
    {"mpi_real_size", Basic::real},
    {"mpi_double_precision_size", Basic::double_precision},
});
constexpr auto supported = std::to_array<Key>({
    {"mpi_logical1_supported", Basic::logical1},
    {"mpi_logical2_supported", Basic::logical2},
    {"mpi_logical4_supported", Basic::logical4},
    {"mpi_logical8_supported", Basic::logical8},
    {"mpi_logical16_supported", Basic::logical16},
    {"mpi_integer1_supported", Basic::integer1},
    {"mpi_integer2_supported", Basic::integer2},
    {"mpi_integer4_supported", Basic::integer4},
    {"mpi_integer8_supported", Basic::integer8},
    {"mpi_integer16_supported", Basic::integer16},
    {"mpi_real2_supported", Basic::real2},
    {"mpi_real4_supported", Basic::real4},
    {"mpi_real8_supported", Basic::real8},
    {"mpi_real16_supported", Basic::real16},
    {"mpi_complex4_supported", Basic::complex4},
    {"mpi_complex8_supported", Basic::complex8},
    {"mpi_complex16_supported", Basic::complex16},
    {"mpi_complex32_supported", Basic::complex32},
    {"mpi_double_complex_supported", Basic::double_complex},
});

Ref<Info> facts() {
  auto made = make_ref<Info>();
  for (const Key& key : sizes)
    made->set(key.name, std::to_string(info(key.basic).size));
  for (const Key& key : supported)
    made->set(key.name, info(key.basic).representation != Representation::none ? "true" : "false");
  return made;
}

Result<> check_logical_size(int logical_size) {
  if (logical_size >= 1 && logical_size <= 16 && std::has_single_bit(static_cast<unsigned>(logical_size)))
    return {};
  return fail(ErrorClass::arg, fmt::format("logical_size {} is not 1, 2, 4, 8 or 16", logical_size));
}

using Logical = std::array<unsigned char, 16>;
/// `.true.` is the integer 1, in the least significant byte.
constexpr Logical logical_true{1};
constexpr Logical logical_false{0};

}  // namespace

ISTHMUS_ENTRY(int, Abi_get_fortran_info)(MPI_Info* info) {
  return call_any_time("MPI_Abi_get_fortran_info", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(info, "info"));
    *info = runtime.infos.add(facts());
    return {};
  });
}

ISTHMUS_ENTRY(int, Abi_set_fortran_info)(MPI_Info info) {
  return call_any_time("MPI_Abi_set_fortran_info", [&](Runtime&) -> Result<> {
    Result<Info*> wanted = find_info(info);
    if (!wanted) return std::unexpected(std::move(wanted).error());
    if (!*wanted) return fail(ErrorClass::info, "info is MPI_INFO_NULL");
    const Ref<Info> actual = facts();
    for (std::size_t i = 0; i < actual->size(); ++i) {
      const auto& [key, value] = actual->entry(i);
      const std::string* said = (*wanted)->find(key);
      if (said && *said != value)
        return fail(ErrorClass::abi, fmt::format("{} is {} in this library, not {}", key, value, *said));
    }
    return {};
  });
}

ISTHMUS_ENTRY(int, Abi_get_fortran_booleans)
(int logical_size, void* logical_true_value, void* logical_false_value, int* is_set) {
  return call_any_time("MPI_Abi_get_fortran_booleans", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_logical_size(logical_size));
    ISTHMUS_TRY(check_pointer(logical_true_value, "logical_true"));
    ISTHMUS_TRY(check_pointer(logical_false_value, "logical_false"));
    ISTHMUS_TRY(check_pointer(is_set, "is_set"));
    std::memcpy(logical_true_value, logical_true.data(), static_cast<std::size_t>(logical_size));
    std::memcpy(logical_false_value, logical_false.data(), static_cast<std::size_t>(logical_size));
    *is_set = 1;
    return {};
  });
}

ISTHMUS_ENTRY(int, Abi_set_fortran_booleans)
(int logical_size, void* logical_true_value, void* logical_false_value) {
  return call_any_time("MPI_Abi_set_fortran_booleans", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_logical_size(logical_size));
    ISTHMUS_TRY(check_pointer(logical_true_value, "logical_true"));
    ISTHMUS_TRY(check_pointer(logical_false_value, "logical_false"));
    const auto bytes = static_cast<std::size_t>(logical_size);
    if (std::memcmp(logical_true_value, logical_true.data(), bytes) != 0 ||
        std::memcmp(logical_false_value, logical_false.data(), bytes) != 0)
      return fail(ErrorClass::abi, "logical_true and logical_false are 1 and 0 in this library");
    return {};
  });
}

}  // namespace isthmus::abi
