#pragma once

#include "comm/info.hpp"

namespace isthmus::abi {

class Runtime;

/// MPI_INFO_ENV: how this process was started, under the keys that the standard reserves for it (MPI 5.0,
/// section 11.2.1). Made by the first call, which may come before MPI_Init, and there to the end of the
/// process. Values are what was asked for, not what was given: `maxprocs` is the `-n` of this process's
/// program. MPI_Init adds what only it knows.
Info& environment_info(Runtime& runtime);

}  // namespace isthmus::abi
