#pragma once

#include <mpi.h>

#include "abi/core/runtime.hpp"
#include "base/error.hpp"
#include "base/ref.hpp"
#include "datatype/datatype.hpp"

namespace isthmus::abi {

/// Hands a new datatype to the program.
Result<> give(Result<Ref<Datatype>> made, MPI_Datatype* newtype);

/// The one handle of a predefined type in this rank. Those without a name get it when the program sees them
/// first.
MPI_Datatype handle_of(Datatype& predefined);

}  // namespace isthmus::abi
