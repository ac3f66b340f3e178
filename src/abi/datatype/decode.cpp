#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "abi/datatype/datatype.hpp"
#include "datatype/make/construct.hpp"
#include "datatype/make/unnamed.hpp"

namespace isthmus::abi {
namespace {

static_assert(static_cast<int>(Combiner::named) == MPI_COMBINER_NAMED &&
              static_cast<int>(Combiner::structure) == MPI_COMBINER_STRUCT &&
              static_cast<int>(Combiner::darray) == MPI_COMBINER_DARRAY &&
              static_cast<int>(Combiner::f90_integer) == MPI_COMBINER_F90_INTEGER &&
              static_cast<int>(Combiner::value_index) == MPI_COMBINER_VALUE_INDEX);
static_assert(unspecified == MPI_UNDEFINED && static_cast<int>(SizeClass::integer) == MPI_TYPECLASS_INTEGER &&
              static_cast<int>(SizeClass::complex) == MPI_TYPECLASS_COMPLEX);

/// What made a type, for the functions without a place for large counts: those refuse what was made with
/// them (MPI 5.0, section 5.1.13).
Result<const Contents*> small_contents(MPI_Datatype datatype) {
  Result<Datatype*> type = find_datatype(datatype);
  if (!type) return std::unexpected(std::move(type).error());
  const Contents& contents = (*type)->contents();
  if (!contents.large_counts.empty())
    return fail(ErrorClass::type, "datatype was made with large counts, which only the _c function can tell");
  return &contents;
}

Result<const Contents*> any_contents(MPI_Datatype datatype) {
  Result<Datatype*> type = find_datatype(datatype);
  if (!type) return std::unexpected(std::move(type).error());
  return &(*type)->contents();
}

template <class Integer>
Result<> store_size(std::size_t size, Integer* to, const char* argument) {
  ISTHMUS_TRY(check_pointer(to, argument));
  *to = static_cast<Integer>(size);
  return {};
}

/// Everything but the large counts.
template <class Integer>
Result<> store_envelope(const Contents& contents, Integer* integers, Integer* addresses, Integer* datatypes,
                        int* combiner) {
  ISTHMUS_TRY(check_pointer(combiner, "combiner"));
  ISTHMUS_TRY(store_size(contents.integers.size(), integers, "num_integers"));
  ISTHMUS_TRY(store_size(contents.addresses.size(), addresses, "num_addresses"));
  ISTHMUS_TRY(store_size(contents.types.size(), datatypes, "num_datatypes"));
  *combiner = static_cast<int>(contents.combiner);
  return {};
}

/// An array of the program and how many entries it has.
template <class T>
struct Room {
  T* data;
  std::int64_t size;
  const char* name;
};

template <class From, class To>
Result<> check_room(const std::vector<From>& values, const Room<To>& room) {
  if (std::cmp_less(room.size, values.size()))
    return fail(ErrorClass::arg,
                fmt::format("max_{} {} is less than the {} there are", room.name, room.size, values.size()));
  if (!values.empty() && room.data == nullptr)
    return fail(ErrorClass::arg, fmt::format("array_of_{} is a null pointer", room.name));
  return {};
}

/// Handles for the program: those of predefined types, and new objects for derived ones, which the program
/// has to free (MPI 5.0, section 5.1.13).
Result<> give_types(const Contents& contents, MPI_Datatype* datatypes) {
  std::vector<Ref<Datatype>> given;
  given.reserve(contents.types.size());
  for (const Ref<Datatype>& type : contents.types) {
    if (type->is_predefined()) {
      given.push_back(type);
      continue;
    }
    Result<Ref<Datatype>> clone = clone_type(*type);
    if (!clone) return std::unexpected(std::move(clone).error());
    given.push_back(*std::move(clone));
  }
  for (Ref<Datatype>& type : given)
    *datatypes++ = type->is_predefined() ? handle_of(*type) : Runtime::get().datatypes.add(std::move(type));
  return {};
}

struct ContentsRoom {
  Room<int> integers;
  Room<MPI_Aint> addresses;
  Room<MPI_Count> large_counts;
  Room<MPI_Datatype> datatypes;
};

Result<> store_contents(const Contents& contents, const ContentsRoom& room) {
  if (contents.combiner == Combiner::named)
    return fail(ErrorClass::type, "datatype is a named predefined one, which has no contents");
  ISTHMUS_TRY(check_room(contents.integers, room.integers));
  ISTHMUS_TRY(check_room(contents.addresses, room.addresses));
  ISTHMUS_TRY(check_room(contents.large_counts, room.large_counts));
  ISTHMUS_TRY(check_room(contents.types, room.datatypes));
  ISTHMUS_TRY(give_types(contents, room.datatypes.data));
  std::ranges::copy(contents.integers, room.integers.data);
  std::ranges::copy(contents.addresses, room.addresses.data);
  std::ranges::copy(contents.large_counts, room.large_counts.data);
  return {};
}

/// For functions that find a predefined type. `find`: `Result<Datatype*>(Runtime&)`; null is
/// MPI_DATATYPE_NULL.
template <class Find>
int give_predefined(const char* function, MPI_Datatype* newtype, const char* argument, Find&& find) noexcept {
  return call(function, [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(newtype, argument));
    Result<Datatype*> found = find(runtime);
    if (!found) return std::unexpected(std::move(found).error());
    *newtype = *found != nullptr ? handle_of(**found) : MPI_DATATYPE_NULL;
    return {};
  });
}

}  // namespace

ISTHMUS_ENTRY(int, Type_get_envelope)
(MPI_Datatype datatype, int* num_integers, int* num_addresses, int* num_datatypes, int* combiner) {
  return call("MPI_Type_get_envelope", [&](Runtime&) -> Result<> {
    Result<const Contents*> contents = small_contents(datatype);
    if (!contents) return std::unexpected(std::move(contents).error());
    return store_envelope(**contents, num_integers, num_addresses, num_datatypes, combiner);
  });
}
ISTHMUS_ENTRY(int, Type_get_envelope_c)
(MPI_Datatype datatype, MPI_Count* num_integers, MPI_Count* num_addresses, MPI_Count* num_large_counts,
 MPI_Count* num_datatypes, int* combiner) {
  return call("MPI_Type_get_envelope_c", [&](Runtime&) -> Result<> {
    Result<const Contents*> contents = any_contents(datatype);
    if (!contents) return std::unexpected(std::move(contents).error());
    ISTHMUS_TRY(store_size((*contents)->large_counts.size(), num_large_counts, "num_large_counts"));
    return store_envelope(**contents, num_integers, num_addresses, num_datatypes, combiner);
  });
}

ISTHMUS_ENTRY(int, Type_get_contents)
(MPI_Datatype datatype, int max_integers, int max_addresses, int max_datatypes, int array_of_integers[],
 MPI_Aint array_of_addresses[], MPI_Datatype array_of_datatypes[]) {
  return call("MPI_Type_get_contents", [&](Runtime&) -> Result<> {
    Result<const Contents*> contents = small_contents(datatype);
    if (!contents) return std::unexpected(std::move(contents).error());
    return store_contents(**contents, {{array_of_integers, max_integers, "integers"},
                                       {array_of_addresses, max_addresses, "addresses"},
                                       {nullptr, 0, "large_counts"},
                                       {array_of_datatypes, max_datatypes, "datatypes"}});
  });
}
ISTHMUS_ENTRY(int, Type_get_contents_c)
(MPI_Datatype datatype, MPI_Count max_integers, MPI_Count max_addresses, MPI_Count max_large_counts,
 MPI_Count max_datatypes, int array_of_integers[], MPI_Aint array_of_addresses[],
 MPI_Count array_of_large_counts[], MPI_Datatype array_of_datatypes[]) {
  return call("MPI_Type_get_contents_c", [&](Runtime&) -> Result<> {
    Result<const Contents*> contents = any_contents(datatype);
    if (!contents) return std::unexpected(std::move(contents).error());
    return store_contents(**contents, {{array_of_integers, max_integers, "integers"},
                                       {array_of_addresses, max_addresses, "addresses"},
                                       {array_of_large_counts, max_large_counts, "large_counts"},
                                       {array_of_datatypes, max_datatypes, "datatypes"}});
  });
}

ISTHMUS_ENTRY(int, Type_create_f90_real)(int p, int r, MPI_Datatype* newtype) {
  return give_predefined("MPI_Type_create_f90_real", newtype, "newtype",
                         [&](Runtime& runtime) { return runtime.f90_types.real(p, r); });
}
ISTHMUS_ENTRY(int, Type_create_f90_complex)(int p, int r, MPI_Datatype* newtype) {
  return give_predefined("MPI_Type_create_f90_complex", newtype, "newtype",
                         [&](Runtime& runtime) { return runtime.f90_types.complex(p, r); });
}
ISTHMUS_ENTRY(int, Type_create_f90_integer)(int r, MPI_Datatype* newtype) {
  return give_predefined("MPI_Type_create_f90_integer", newtype, "newtype",
                         [&](Runtime& runtime) { return runtime.f90_types.integer(r); });
}
ISTHMUS_ENTRY(int, Type_match_size)(int typeclass, int size, MPI_Datatype* datatype) {
  return give_predefined("MPI_Type_match_size", datatype, "datatype",
                         [&](Runtime&) { return match_size_type(static_cast<SizeClass>(typeclass), size); });
}
ISTHMUS_ENTRY(int, Type_get_value_index)
(MPI_Datatype value_type, MPI_Datatype index_type, MPI_Datatype* pair_type) {
  return give_predefined("MPI_Type_get_value_index", pair_type, "pair_type",
                         [&](Runtime&) -> Result<Datatype*> {
                           Result<Datatype*> value = find_datatype(value_type, "value_type");
                           if (!value) return value;
                           Result<Datatype*> index = find_datatype(index_type, "index_type");
                           if (!index) return index;
                           return value_index_type(**value, **index);
                         });
}

}  // namespace isthmus::abi
