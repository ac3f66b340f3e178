#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "datatype/datatype.hpp"

namespace isthmus {

// Predefined types found by their properties (MPI 5.0, sections 6.9.4 and 19.1.9); some have no name. They
// are not to be freed.

/// MPI_UNDEFINED of the standard ABI: the precision or the range does not matter.
inline constexpr int unspecified = -32766;

/// The types of gfortran's kinds, which have no name. Equal arguments give the same object (MPI 5.0, section
/// 19.1.9), which lives as long as this one. Each rank has its own: a type knows one handle, which names it
/// in one rank. Guarded by the engine's lock.
class F90Types {
 public:
  /// Of a real of kind SELECTED_REAL_KIND(precision, range). Class `arg` where there is none, or where both
  /// are `unspecified`.
  [[nodiscard]] Result<Datatype*> real(int precision, int range);
  /// The same for a complex.
  [[nodiscard]] Result<Datatype*> complex(int precision, int range);
  /// Of an integer of kind SELECTED_INT_KIND(range).
  [[nodiscard]] Result<Datatype*> integer(int range);

 private:
  Result<Datatype*> floating(Combiner combiner, int precision, int range);
  Result<Datatype*> find_or_make(Basic basic, Combiner combiner, std::vector<int> arguments);

  std::map<std::pair<Combiner, std::vector<int>>, Ref<Datatype>> made_;
};

/// The values are those of MPI_TYPECLASS_* in the standard ABI (`logical` is an extension of the reference).
enum class SizeClass : int { logical = 191, integer = 192, real = 193, complex = 194 };

/// The named type of that class with `size` bytes (MPI_Type_match_size); class `arg` where there is none.
[[nodiscard]] Result<Datatype*> match_size_type(SizeClass size_class, int size);

/// MPI_Type_get_value_index: the named pair type of these two, or null (MPI_DATATYPE_NULL) where there is
/// none. The standard allows unnamed ones too; the reference implementation has none either, and mpi4py 4.1
/// can neither pickle nor classify them. Class `type` if one of the two is not predefined.
[[nodiscard]] Result<Datatype*> value_index_type(Datatype& value, Datatype& index);

}  // namespace isthmus
