#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpu/memory/allocation.hpp"

/// The memory allocation kinds of MPI 5.0, section 11.4.3, and of the MPI Forum's side document on them: a
/// list as "system,mpi,cuda:device:host", each kind with restrictors behind colons. Without restrictors all
/// of the kind is meant.
namespace isthmus::memory_kinds {

/// Of the kinds asked for, those that this library can be used with, in their order, behind "system" and
/// "mpi", which always can. A kind with restrictors of which some are not known is left out as a whole.
std::string supported(std::string_view asked, bool has_cuda);

/// Whether all that `some` names is within `all`.
bool is_within(std::string_view some, std::string_view all);

/// What MPI_Alloc_mem is to allocate for a kind: of a list the first; nothing for what cannot be.
std::optional<AllocationKind> to_allocate(std::string_view kinds);

}  // namespace isthmus::memory_kinds
