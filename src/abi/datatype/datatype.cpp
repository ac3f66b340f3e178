#include "abi/datatype/datatype.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "datatype/make/construct.hpp"

namespace isthmus::abi {

Result<> give(Result<Ref<Datatype>> made, MPI_Datatype* newtype) {
  if (!made) return std::unexpected(std::move(made).error());
  *newtype = Runtime::get().datatypes.add(*std::move(made));
  return {};
}

MPI_Datatype handle_of(Datatype& predefined) {
  if (predefined.handle != 0) return reinterpret_cast<MPI_Datatype>(predefined.handle);
  return Runtime::get().datatypes.add(Ref<Datatype>::share(&predefined));
}

namespace {

/// For functions on a datatype. `body`: `Result<>(Datatype&)`.
template <class Body>
int call_with_type(const char* function, MPI_Datatype datatype, Body&& body) noexcept {
  return call(function, [&](Runtime&) -> Result<> {
    Result<Datatype*> type = find_datatype(datatype);
    if (!type) return std::unexpected(std::move(type).error());
    return body(**type);
  });
}

/// Sizes that the result cannot hold are MPI_UNDEFINED (MPI 5.0, section 5.1.5).
template <class Integer>
Integer or_undefined(std::int64_t value) {
  return std::in_range<Integer>(value) ? static_cast<Integer>(value) : Integer{MPI_UNDEFINED};
}

template <class Integer>
int type_size(const char* function, MPI_Datatype datatype, Integer* size) noexcept {
  return call_with_type(function, datatype, [&](const Datatype& type) -> Result<> {
    ISTHMUS_TRY(check_pointer(size, "size"));
    *size = or_undefined<Integer>(type.size());
    return {};
  });
}

template <class Integer>
int type_extent(const char* function, MPI_Datatype datatype, Integer* lb, Integer* extent) noexcept {
  return call_with_type(function, datatype, [&](const Datatype& type) -> Result<> {
    ISTHMUS_TRY(check_pointer(lb, "lb"));
    ISTHMUS_TRY(check_pointer(extent, "extent"));
    *lb = type.lb();
    *extent = type.extent();
    return {};
  });
}

template <class Integer>
int type_true_extent(const char* function, MPI_Datatype datatype, Integer* true_lb,
                     Integer* true_extent) noexcept {
  return call_with_type(function, datatype, [&](const Datatype& type) -> Result<> {
    ISTHMUS_TRY(check_pointer(true_lb, "true_lb"));
    ISTHMUS_TRY(check_pointer(true_extent, "true_extent"));
    *true_lb = type.true_lb();
    *true_extent = type.true_extent();
    return {};
  });
}

Result<> free_type(Datatype& type, MPI_Datatype* datatype) {
  if (type.is_predefined()) {
    return fail(ErrorClass::type, fmt::format("datatype is {}, which is predefined and cannot be freed",
                                              type.is_named() ? type.default_name() : "an unnamed datatype"));
  }
  const Ref<Datatype> alive = Ref<Datatype>::share(&type);
  ISTHMUS_TRY(type.labels().attributes.clear(type.handle));
  Runtime::get().datatypes.remove(*datatype);
  *datatype = MPI_DATATYPE_NULL;
  return {};
}

void store_type_name(std::string_view name, char* type_name, int* resultlen) {
  const std::string_view fitting = name.substr(0, MPI_MAX_OBJECT_NAME - 1);
  std::ranges::copy(fitting, type_name);
  type_name[fitting.size()] = '\0';
  *resultlen = static_cast<int>(fitting.size());
}

}  // namespace

ISTHMUS_ENTRY(int, Type_size)(MPI_Datatype datatype, int* size) {
  return type_size("MPI_Type_size", datatype, size);
}
ISTHMUS_ENTRY(int, Type_size_c)(MPI_Datatype datatype, MPI_Count* size) {
  return type_size("MPI_Type_size_c", datatype, size);
}
ISTHMUS_ENTRY(int, Type_size_x)(MPI_Datatype datatype, MPI_Count* size) {
  return type_size("MPI_Type_size_x", datatype, size);
}

ISTHMUS_ENTRY(int, Type_get_extent)(MPI_Datatype datatype, MPI_Aint* lb, MPI_Aint* extent) {
  return type_extent("MPI_Type_get_extent", datatype, lb, extent);
}
ISTHMUS_ENTRY(int, Type_get_extent_c)(MPI_Datatype datatype, MPI_Count* lb, MPI_Count* extent) {
  return type_extent("MPI_Type_get_extent_c", datatype, lb, extent);
}
ISTHMUS_ENTRY(int, Type_get_extent_x)(MPI_Datatype datatype, MPI_Count* lb, MPI_Count* extent) {
  return type_extent("MPI_Type_get_extent_x", datatype, lb, extent);
}

ISTHMUS_ENTRY(int, Type_get_true_extent)
(MPI_Datatype datatype, MPI_Aint* true_lb, MPI_Aint* true_extent) {
  return type_true_extent("MPI_Type_get_true_extent", datatype, true_lb, true_extent);
}
ISTHMUS_ENTRY(int, Type_get_true_extent_c)
(MPI_Datatype datatype, MPI_Count* true_lb, MPI_Count* true_extent) {
  return type_true_extent("MPI_Type_get_true_extent_c", datatype, true_lb, true_extent);
}
ISTHMUS_ENTRY(int, Type_get_true_extent_x)
(MPI_Datatype datatype, MPI_Count* true_lb, MPI_Count* true_extent) {
  return type_true_extent("MPI_Type_get_true_extent_x", datatype, true_lb, true_extent);
}

ISTHMUS_ENTRY(int, Type_commit)(MPI_Datatype* datatype) {
  return call_with_type("MPI_Type_commit", datatype != nullptr ? *datatype : MPI_DATATYPE_NULL,
                        [](Datatype& type) { return type.commit(); });
}

ISTHMUS_ENTRY(int, Type_free)(MPI_Datatype* datatype) {
  return call_with_type("MPI_Type_free", datatype != nullptr ? *datatype : MPI_DATATYPE_NULL,
                        [&](Datatype& type) { return free_type(type, datatype); });
}

ISTHMUS_ENTRY(int, Type_dup)(MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return call("MPI_Type_dup", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(newtype, "newtype"));
    Result<Datatype*> old = find_datatype(oldtype, "oldtype");
    if (!old) return std::unexpected(std::move(old).error());
    *newtype = MPI_DATATYPE_NULL;  // what it is if a copy callback fails (section 7.7.4)
    Result<Ref<Datatype>> made = dup_type(**old);
    if (!made) return std::unexpected(std::move(made).error());
    const Ref<Datatype> alive = Ref<Datatype>::share(*old);
    ISTHMUS_TRY(runtime.labels_of(*alive).attributes.copy_to((*made)->labels().attributes, alive->handle));
    return give(std::move(made), newtype);
  });
}

ISTHMUS_ENTRY(int, Type_set_name)(MPI_Datatype datatype, const char* type_name) {
  return call_with_type("MPI_Type_set_name", datatype, [&](Datatype& type) -> Result<> {
    ISTHMUS_TRY(check_pointer(type_name, "type_name"));
    Runtime::get().labels_of(type).name = std::string(type_name, strnlen(type_name, MPI_MAX_OBJECT_NAME - 1));
    return {};
  });
}

ISTHMUS_ENTRY(int, Type_get_name)(MPI_Datatype datatype, char* type_name, int* resultlen) {
  return call("MPI_Type_get_name", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(type_name, "type_name"));
    ISTHMUS_TRY(check_pointer(resultlen, "resultlen"));
    if (datatype == MPI_DATATYPE_NULL) {  // has a name too (section 7.8)
      store_type_name("MPI_DATATYPE_NULL", type_name, resultlen);
      return {};
    }
    Result<Datatype*> type = find_datatype(datatype);
    if (!type) return std::unexpected(std::move(type).error());
    const TypeLabels& labels = runtime.labels_of(**type);
    store_type_name(labels.name ? *labels.name : (*type)->default_name(), type_name, resultlen);
    return {};
  });
}

ISTHMUS_ENTRY(int, Get_address)(const void* location, MPI_Aint* address) {
  return call_any_time("MPI_Get_address", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(address, "address"));
    *address = reinterpret_cast<MPI_Aint>(location);
    return {};
  });
}
// Addresses wrap around like pointers, which is why the standard has functions for them (section 4.1.5).
ISTHMUS_ENTRY(MPI_Aint, Aint_add)(MPI_Aint base, MPI_Aint disp) {
  return static_cast<MPI_Aint>(static_cast<std::uintptr_t>(base) + static_cast<std::uintptr_t>(disp));
}
ISTHMUS_ENTRY(MPI_Aint, Aint_diff)(MPI_Aint addr1, MPI_Aint addr2) {
  return static_cast<MPI_Aint>(static_cast<std::uintptr_t>(addr1) - static_cast<std::uintptr_t>(addr2));
}

ISTHMUS_ENTRY(int, Type_toint)(MPI_Datatype datatype) {
  return DatatypeTable::to_int(datatype);
}
ISTHMUS_ENTRY(MPI_Datatype, Type_fromint)(int datatype) {
  Runtime& runtime = Runtime::get();
  const CallGuard guard(runtime);
  return runtime.datatypes.from_int(datatype);
}

}  // namespace isthmus::abi
