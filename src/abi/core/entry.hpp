#pragma once

#include <mpi.h>

// How a function of the C interface is defined. The profiling interface (MPI 5.0, section 15.2) asks for
// PMPI_Name as the function itself and for an MPI_Name that a tool may define instead; so PMPI_Name is strong
// and MPI_Name a weak alias of it, both visible although the library is built with hidden visibility.
//
//     ISTHMUS_ENTRY(int, Barrier)(MPI_Comm comm) { ... }
//
// cmake/generate_entries.py finds these uses in src/abi/*.cpp and makes a stub for every function of mpi.h
// that has none. Both macros work at global scope and inside a namespace.

#define ISTHMUS_VISIBLE_ __attribute__((visibility("default")))

#define ISTHMUS_ALIASED_(type, strong, weak_name)                                                      \
  extern "C" __typeof__(::weak_name) weak_name __attribute__((weak, alias(#strong))) ISTHMUS_VISIBLE_; \
  extern "C" ISTHMUS_VISIBLE_ type strong

/// Defines PMPI_`name`, declared in mpi.h, and its alias MPI_`name`.
#define ISTHMUS_ENTRY(type, name) ISTHMUS_ALIASED_(type, PMPI_##name, MPI_##name)

/// The same for an extension: PMPIX_`name` and MPIX_`name`, declared in mpi-ext.h.
#define ISTHMUS_EXTENSION(type, name) ISTHMUS_ALIASED_(type, PMPIX_##name, MPIX_##name)
