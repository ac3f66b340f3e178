#include <fmt/format.h>

#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "abi/datatype/datatype.hpp"
#include "datatype/make/array_types.hpp"
#include "datatype/make/construct.hpp"

namespace isthmus::abi {
namespace {

static_assert(static_cast<int>(ArrayOrder::c) == MPI_ORDER_C &&
              static_cast<int>(ArrayOrder::fortran) == MPI_ORDER_FORTRAN &&
              static_cast<int>(Distribution::none) == MPI_DISTRIBUTE_NONE &&
              static_cast<int>(Distribution::block) == MPI_DISTRIBUTE_BLOCK &&
              static_cast<int>(Distribution::cyclic) == MPI_DISTRIBUTE_CYCLIC &&
              default_distribution_argument == MPI_DISTRIBUTE_DFLT_DARG);
static_assert(std::is_same_v<MPI_Count, MPI_Aint>, "one template serves displacements of both");

/// Which form of a constructor was called, by the type of its counts.
template <class Integer>
constexpr Form form_of = std::is_same_v<Integer, int> ? Form::small : Form::large;

/// For constructors from one old type. `make`: `Result<Ref<Datatype>>(Datatype& old)`; it may return errors
/// of further checks.
template <class Make>
int create(const char* function, MPI_Datatype oldtype, MPI_Datatype* newtype, Make&& make) noexcept {
  return call(function, [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(newtype, "newtype"));
    Result<Datatype*> old = find_datatype(oldtype, "oldtype");
    if (!old) return std::unexpected(std::move(old).error());
    return give(make(**old), newtype);
  });
}

/// An array argument of `count` entries.
template <class T>
Result<std::span<const T>> array(const T* data, std::int64_t count, const char* argument) {
  ISTHMUS_TRY(check_count(count));
  if (count > 0) ISTHMUS_TRY(check_pointer(data, argument));
  return std::span<const T>(data, static_cast<std::size_t>(count));
}

/// Two arrays of `count` entries each.
template <class Lengths, class Displacements>
struct Blocks {
  std::span<const Lengths> lengths;
  std::span<const Displacements> displacements;
};

template <class Lengths, class Displacements>
Result<Blocks<Lengths, Displacements>> blocks(const Lengths* lengths, const Displacements* displacements,
                                              std::int64_t count) {
  auto first = array(lengths, count, "array_of_blocklengths");
  if (!first) return std::unexpected(std::move(first).error());
  auto second = array(displacements, count, "array_of_displacements");
  if (!second) return std::unexpected(std::move(second).error());
  return Blocks<Lengths, Displacements>{*first, *second};
}

template <class Integer>
int indexed(const char* function, Integer count, const Integer* lengths, const Integer* displacements,
            MPI_Datatype oldtype, MPI_Datatype* newtype) noexcept {
  return create(function, oldtype, newtype, [&](Datatype& old) -> Result<Ref<Datatype>> {
    auto given = blocks(lengths, displacements, count);
    if (!given) return std::unexpected(std::move(given).error());
    return indexed_type(given->lengths, given->displacements, old, form_of<Integer>);
  });
}

template <class Integer>
int hindexed(const char* function, Integer count, const Integer* lengths, const MPI_Aint* displacements,
             MPI_Datatype oldtype, MPI_Datatype* newtype) noexcept {
  return create(function, oldtype, newtype, [&](Datatype& old) -> Result<Ref<Datatype>> {
    auto given = blocks(lengths, displacements, count);
    if (!given) return std::unexpected(std::move(given).error());
    return hindexed_type(given->lengths, given->displacements, old, form_of<Integer>);
  });
}

template <class Integer>
int indexed_block(const char* function, Integer count, Integer blocklength, const Integer* displacements,
                  MPI_Datatype oldtype, MPI_Datatype* newtype) noexcept {
  return create(function, oldtype, newtype, [&](Datatype& old) -> Result<Ref<Datatype>> {
    auto given = array(displacements, count, "array_of_displacements");
    if (!given) return std::unexpected(std::move(given).error());
    return indexed_block_type(blocklength, *given, old, form_of<Integer>);
  });
}

template <class Integer>
int hindexed_block(const char* function, Integer count, Integer blocklength, const MPI_Aint* displacements,
                   MPI_Datatype oldtype, MPI_Datatype* newtype) noexcept {
  return create(function, oldtype, newtype, [&](Datatype& old) -> Result<Ref<Datatype>> {
    auto given = array(displacements, count, "array_of_displacements");
    if (!given) return std::unexpected(std::move(given).error());
    return hindexed_block_type(blocklength, *given, old, form_of<Integer>);
  });
}

Result<std::vector<Datatype*>> find_types(const MPI_Datatype* handles, std::int64_t count) {
  auto given = array(handles, count, "array_of_types");
  if (!given) return std::unexpected(std::move(given).error());
  std::vector<Datatype*> types;
  types.reserve(given->size());
  for (MPI_Datatype handle : *given) {
    Result<Datatype*> type = Runtime::get().datatypes.find(handle);
    if (*type == nullptr)
      type = find_datatype(handle, fmt::format("array_of_types[{}]", types.size()).c_str());
    if (!type) return std::unexpected(std::move(type).error());
    types.push_back(*type);
  }
  return types;
}

template <class Integer>
int structure(const char* function, Integer count, const Integer* lengths, const MPI_Aint* displacements,
              const MPI_Datatype* types, MPI_Datatype* newtype) noexcept {
  return call(function, [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(newtype, "newtype"));
    auto given = blocks(lengths, displacements, count);
    if (!given) return std::unexpected(std::move(given).error());
    Result<std::vector<Datatype*>> members = find_types(types, count);
    if (!members) return std::unexpected(std::move(members).error());
    return give(struct_type(given->lengths, given->displacements, *members, form_of<Integer>), newtype);
  });
}

/// An array argument with one entry for each dimension.
template <class T>
Result<std::span<const T>> per_dimension(const T* data, int ndims, const char* argument) {
  if (ndims < 1) return fail(ErrorClass::arg, fmt::format("ndims {} is not positive", ndims));
  ISTHMUS_TRY(check_pointer(data, argument));
  return std::span<const T>(data, static_cast<std::size_t>(ndims));
}

template <class Integer>
int subarray(const char* function, int ndims, const Integer* sizes, const Integer* subsizes,
             const Integer* starts, int order, MPI_Datatype oldtype, MPI_Datatype* newtype) noexcept {
  return create(function, oldtype, newtype, [&](Datatype& old) -> Result<Ref<Datatype>> {
    auto whole = per_dimension(sizes, ndims, "array_of_sizes");
    if (!whole) return std::unexpected(std::move(whole).error());
    auto part = per_dimension(subsizes, ndims, "array_of_subsizes");
    if (!part) return std::unexpected(std::move(part).error());
    auto first = per_dimension(starts, ndims, "array_of_starts");
    if (!first) return std::unexpected(std::move(first).error());
    return subarray_type(*whole, *part, *first, static_cast<ArrayOrder>(order), old, form_of<Integer>);
  });
}

struct DarrayArguments {
  int size;
  int rank;
  int ndims;
  const int* distribs;
  const int* dargs;
  const int* psizes;
  int order;
};

template <class Integer>
int darray(const char* function, const DarrayArguments& arguments, const Integer* gsizes,
           MPI_Datatype oldtype, MPI_Datatype* newtype) noexcept {
  return create(function, oldtype, newtype, [&](Datatype& old) -> Result<Ref<Datatype>> {
    auto sizes = per_dimension(gsizes, arguments.ndims, "array_of_gsizes");
    if (!sizes) return std::unexpected(std::move(sizes).error());
    auto distribs = per_dimension(arguments.distribs, arguments.ndims, "array_of_distribs");
    if (!distribs) return std::unexpected(std::move(distribs).error());
    auto dargs = per_dimension(arguments.dargs, arguments.ndims, "array_of_dargs");
    if (!dargs) return std::unexpected(std::move(dargs).error());
    auto psizes = per_dimension(arguments.psizes, arguments.ndims, "array_of_psizes");
    if (!psizes) return std::unexpected(std::move(psizes).error());
    const ProcessGrid grid{arguments.size, arguments.rank, *distribs, *dargs, *psizes};
    return darray_type(grid, *sizes, static_cast<ArrayOrder>(arguments.order), old, form_of<Integer>);
  });
}

}  // namespace

ISTHMUS_ENTRY(int, Type_contiguous)(int count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return create("MPI_Type_contiguous", oldtype, newtype,
                [&](Datatype& old) { return contiguous_type(count, old, Form::small); });
}
ISTHMUS_ENTRY(int, Type_contiguous_c)(MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return create("MPI_Type_contiguous_c", oldtype, newtype,
                [&](Datatype& old) { return contiguous_type(count, old, Form::large); });
}

ISTHMUS_ENTRY(int, Type_vector)
(int count, int blocklength, int stride, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return create("MPI_Type_vector", oldtype, newtype,
                [&](Datatype& old) { return vector_type(count, blocklength, stride, old, Form::small); });
}
ISTHMUS_ENTRY(int, Type_vector_c)
(MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return create("MPI_Type_vector_c", oldtype, newtype,
                [&](Datatype& old) { return vector_type(count, blocklength, stride, old, Form::large); });
}

ISTHMUS_ENTRY(int, Type_create_hvector)
(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return create("MPI_Type_create_hvector", oldtype, newtype,
                [&](Datatype& old) { return hvector_type(count, blocklength, stride, old, Form::small); });
}
ISTHMUS_ENTRY(int, Type_create_hvector_c)
(MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return create("MPI_Type_create_hvector_c", oldtype, newtype,
                [&](Datatype& old) { return hvector_type(count, blocklength, stride, old, Form::large); });
}

ISTHMUS_ENTRY(int, Type_indexed)
(int count, const int array_of_blocklengths[], const int array_of_displacements[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return indexed("MPI_Type_indexed", count, array_of_blocklengths, array_of_displacements, oldtype, newtype);
}
ISTHMUS_ENTRY(int, Type_indexed_c)
(MPI_Count count, const MPI_Count array_of_blocklengths[], const MPI_Count array_of_displacements[],
 MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return indexed("MPI_Type_indexed_c", count, array_of_blocklengths, array_of_displacements, oldtype,
                 newtype);
}

ISTHMUS_ENTRY(int, Type_create_hindexed)
(int count, const int array_of_blocklengths[], const MPI_Aint array_of_displacements[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return hindexed("MPI_Type_create_hindexed", count, array_of_blocklengths, array_of_displacements, oldtype,
                  newtype);
}
ISTHMUS_ENTRY(int, Type_create_hindexed_c)
(MPI_Count count, const MPI_Count array_of_blocklengths[], const MPI_Count array_of_displacements[],
 MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return hindexed("MPI_Type_create_hindexed_c", count, array_of_blocklengths, array_of_displacements, oldtype,
                  newtype);
}

ISTHMUS_ENTRY(int, Type_create_indexed_block)
(int count, int blocklength, const int array_of_displacements[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return indexed_block("MPI_Type_create_indexed_block", count, blocklength, array_of_displacements, oldtype,
                       newtype);
}
ISTHMUS_ENTRY(int, Type_create_indexed_block_c)
(MPI_Count count, MPI_Count blocklength, const MPI_Count array_of_displacements[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return indexed_block("MPI_Type_create_indexed_block_c", count, blocklength, array_of_displacements, oldtype,
                       newtype);
}

ISTHMUS_ENTRY(int, Type_create_hindexed_block)
(int count, int blocklength, const MPI_Aint array_of_displacements[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return hindexed_block("MPI_Type_create_hindexed_block", count, blocklength, array_of_displacements, oldtype,
                        newtype);
}
ISTHMUS_ENTRY(int, Type_create_hindexed_block_c)
(MPI_Count count, MPI_Count blocklength, const MPI_Count array_of_displacements[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return hindexed_block("MPI_Type_create_hindexed_block_c", count, blocklength, array_of_displacements,
                        oldtype, newtype);
}

ISTHMUS_ENTRY(int, Type_create_struct)
(int count, const int array_of_blocklengths[], const MPI_Aint array_of_displacements[],
 const MPI_Datatype array_of_types[], MPI_Datatype* newtype) {
  return structure("MPI_Type_create_struct", count, array_of_blocklengths, array_of_displacements,
                   array_of_types, newtype);
}
ISTHMUS_ENTRY(int, Type_create_struct_c)
(MPI_Count count, const MPI_Count array_of_blocklengths[], const MPI_Count array_of_displacements[],
 const MPI_Datatype array_of_types[], MPI_Datatype* newtype) {
  return structure("MPI_Type_create_struct_c", count, array_of_blocklengths, array_of_displacements,
                   array_of_types, newtype);
}

ISTHMUS_ENTRY(int, Type_create_subarray)
(int ndims, const int array_of_sizes[], const int array_of_subsizes[], const int array_of_starts[], int order,
 MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return subarray("MPI_Type_create_subarray", ndims, array_of_sizes, array_of_subsizes, array_of_starts,
                  order, oldtype, newtype);
}
ISTHMUS_ENTRY(int, Type_create_subarray_c)
(int ndims, const MPI_Count array_of_sizes[], const MPI_Count array_of_subsizes[],
 const MPI_Count array_of_starts[], int order, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return subarray("MPI_Type_create_subarray_c", ndims, array_of_sizes, array_of_subsizes, array_of_starts,
                  order, oldtype, newtype);
}

ISTHMUS_ENTRY(int, Type_create_darray)
(int size, int rank, int ndims, const int array_of_gsizes[], const int array_of_distribs[],
 const int array_of_dargs[], const int array_of_psizes[], int order, MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return darray("MPI_Type_create_darray",
                {size, rank, ndims, array_of_distribs, array_of_dargs, array_of_psizes, order},
                array_of_gsizes, oldtype, newtype);
}
ISTHMUS_ENTRY(int, Type_create_darray_c)
(int size, int rank, int ndims, const MPI_Count array_of_gsizes[], const int array_of_distribs[],
 const int array_of_dargs[], const int array_of_psizes[], int order, MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return darray("MPI_Type_create_darray_c",
                {size, rank, ndims, array_of_distribs, array_of_dargs, array_of_psizes, order},
                array_of_gsizes, oldtype, newtype);
}

ISTHMUS_ENTRY(int, Type_create_resized)
(MPI_Datatype oldtype, MPI_Aint lb, MPI_Aint extent, MPI_Datatype* newtype) {
  return create("MPI_Type_create_resized", oldtype, newtype,
                [&](Datatype& old) { return resized_type(lb, extent, old, Form::small); });
}
ISTHMUS_ENTRY(int, Type_create_resized_c)
(MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype* newtype) {
  return create("MPI_Type_create_resized_c", oldtype, newtype,
                [&](Datatype& old) { return resized_type(lb, extent, old, Form::large); });
}

}  // namespace isthmus::abi
