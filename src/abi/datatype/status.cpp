#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "abi/request/status.hpp"

namespace isthmus::abi {
namespace {

/// Counts that do not exist, and those that the result cannot hold, are MPI_UNDEFINED (MPI 5.0, sections
/// 3.2.5 and 5.1.11).
template <class Integer>
Integer or_undefined(std::optional<std::int64_t> value) {
  return value && std::in_range<Integer>(*value) ? static_cast<Integer>(*value) : Integer{MPI_UNDEFINED};
}

/// Whole elements in a message of `bytes` bytes.
std::optional<std::int64_t> whole_elements(const Datatype& type, std::int64_t bytes) {
  if (type.size() == 0) return bytes == 0 ? std::optional<std::int64_t>(0) : std::nullopt;
  return bytes % type.size() == 0 ? std::optional(bytes / type.size()) : std::nullopt;
}

/// `measure`: `std::optional<std::int64_t>(const Datatype&, std::int64_t bytes)`.
template <class Integer, class Measure>
int count_of(const char* function, const MPI_Status* status, MPI_Datatype datatype, Integer* count,
             Measure&& measure) noexcept {
  return call(function, [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(status, "status"));
    ISTHMUS_TRY(check_pointer(count, "count"));
    Result<Datatype*> type = find_datatype(datatype);
    if (!type) return std::unexpected(std::move(type).error());
    *count = or_undefined<Integer>(measure(**type, static_cast<std::int64_t>(status_bytes(*status))));
    return {};
  });
}

template <class Integer>
int get_count(const char* function, const MPI_Status* status, MPI_Datatype datatype,
              Integer* count) noexcept {
  return count_of(function, status, datatype, count, whole_elements);
}

template <class Integer>
int get_elements(const char* function, const MPI_Status* status, MPI_Datatype datatype,
                 Integer* count) noexcept {
  return count_of(function, status, datatype, count,
                  [](const Datatype& type, std::int64_t bytes) { return type.elements_in(bytes); });
}

int set_elements(const char* function, MPI_Status* status, MPI_Datatype datatype, MPI_Count count) noexcept {
  return call(function, [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(status, "status"));
    ISTHMUS_TRY(check_count(count));
    Result<Datatype*> type = find_datatype(datatype);
    if (!type) return std::unexpected(std::move(type).error());
    const std::optional<std::int64_t> bytes = (*type)->bytes_of_elements(count);
    if (!bytes)
      return fail(ErrorClass::count, fmt::format("no message of this datatype has {} elements", count));
    set_status_bytes(*status, static_cast<std::uint64_t>(*bytes));
    return {};
  });
}

}  // namespace

ISTHMUS_ENTRY(int, Get_count)(const MPI_Status* status, MPI_Datatype datatype, int* count) {
  return get_count("MPI_Get_count", status, datatype, count);
}
ISTHMUS_ENTRY(int, Get_count_c)(const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count) {
  return get_count("MPI_Get_count_c", status, datatype, count);
}

ISTHMUS_ENTRY(int, Get_elements)(const MPI_Status* status, MPI_Datatype datatype, int* count) {
  return get_elements("MPI_Get_elements", status, datatype, count);
}
ISTHMUS_ENTRY(int, Get_elements_c)(const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count) {
  return get_elements("MPI_Get_elements_c", status, datatype, count);
}
ISTHMUS_ENTRY(int, Get_elements_x)(const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count) {
  return get_elements("MPI_Get_elements_x", status, datatype, count);
}

ISTHMUS_ENTRY(int, Status_set_elements)(MPI_Status* status, MPI_Datatype datatype, int count) {
  return set_elements("MPI_Status_set_elements", status, datatype, count);
}
ISTHMUS_ENTRY(int, Status_set_elements_c)(MPI_Status* status, MPI_Datatype datatype, MPI_Count count) {
  return set_elements("MPI_Status_set_elements_c", status, datatype, count);
}
ISTHMUS_ENTRY(int, Status_set_elements_x)(MPI_Status* status, MPI_Datatype datatype, MPI_Count count) {
  return set_elements("MPI_Status_set_elements_x", status, datatype, count);
}

}  // namespace isthmus::abi
