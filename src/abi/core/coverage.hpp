#pragma once

#include <span>
#include <string_view>

namespace isthmus::abi {

/// One function of mpi.h: the chapter of MPI 5.0 that describes it, and whether it is implemented or raises
/// MPI_ERR_UNSUPPORTED_OPERATION.
struct CoverageRow {
  std::string_view chapter;
  std::string_view function;
  bool implemented;
};

/// Every function of mpi.h, in the header's order: chapters follow the standard and each is contiguous. The
/// table is made by cmake/generate_entries.py from the entries in src/abi/.
std::span<const CoverageRow> coverage() noexcept;

}  // namespace isthmus::abi
