#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "datatype/datatype.hpp"

namespace isthmus {

// Predefined types found by their properties (MPI 5.0, sections 6.9.4 and 19.1.9); some have no name. Equal
// arguments give the same object; it lives as long as the process and is not to be freed. Thread-safe.

/// MPI_UNDEFINED of the standard ABI: the precision or the range does not matter.
inline constexpr int unspecified = -32766;

/// The type of gfortran's real of kind SELECTED_REAL_KIND(precision, range). Class `arg` where there is none,
/// or where both are `unspecified`.
[[nodiscard]] Result<Datatype*> f90_real_type(int precision, int range);
/// The same for a complex.
[[nodiscard]] Result<Datatype*> f90_complex_type(int precision, int range);
/// The type of gfortran's integer of kind SELECTED_INT_KIND(range).
[[nodiscard]] Result<Datatype*> f90_integer_type(int range);

/// The values are those of MPI_TYPECLASS_* in the standard ABI (`logical` is an extension of the reference).
enum class SizeClass : int { logical = 191, integer = 192, real = 193, complex = 194 };

/// The named type of that class with `size` bytes (MPI_Type_match_size); class `arg` where there is none.
[[nodiscard]] Result<Datatype*> match_size_type(SizeClass size_class, int size);

/// MPI_Type_get_value_index: the named pair type of these two, or null (MPI_DATATYPE_NULL) where there is
/// none. The standard allows unnamed ones too; the reference implementation has none either, and mpi4py 4.1
/// can neither pickle nor classify them. Class `type` if one of the two is not predefined.
[[nodiscard]] Result<Datatype*> value_index_type(Datatype& value, Datatype& index);

}  // namespace isthmus
