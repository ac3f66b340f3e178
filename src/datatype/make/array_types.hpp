#pragma once

#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "datatype/datatype.hpp"
#include "datatype/make/construct.hpp"

namespace isthmus {

/// Which index of an array runs fastest. The values are those of the standard ABI.
enum class ArrayOrder : int { c = 0xC, fortran = 0xF };

/// How one dimension of an array is dealt out to processes. The values are those of the standard ABI.
enum class Distribution : int { none = 16, block = 17, cyclic = 18 };
/// MPI_DISTRIBUTE_DFLT_DARG.
inline constexpr int default_distribution_argument = 19;

/// MPI_Type_create_subarray (MPI 5.0, section 5.1.3). The three arrays have one entry for each dimension.
/// Every range must be non-empty and inside the array: `arg` otherwise.
[[nodiscard]] Result<Ref<Datatype>> subarray_type(Integers sizes, Integers subsizes, Integers starts,
                                                  ArrayOrder order, Datatype& old, Form form);

/// The processes among which a darray is distributed, and how.
struct ProcessGrid {
  int size;
  int rank;
  std::span<const int> distributions;  // of `Distribution`, unchecked
  std::span<const int> arguments;
  std::span<const int> process_counts;
};

/// MPI_Type_create_darray (MPI 5.0, section 5.1.4). All arrays have one entry for each dimension.
[[nodiscard]] Result<Ref<Datatype>> darray_type(const ProcessGrid& grid, Integers global_sizes,
                                                ArrayOrder order, Datatype& old, Form form);

}  // namespace isthmus
