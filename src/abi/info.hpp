#pragma once

#include <span>

#include "base/ref.hpp"
#include "comm/info.hpp"

namespace isthmus::abi {

class Runtime;

/// How this process was started, under the keys that the standard reserves for it (MPI 5.0, section 11.5.3).
/// `arguments`: the command and its arguments. Number of processes and thread level only while MPI runs.
Ref<Info> environment_info(const Runtime& runtime, std::span<const char* const> arguments);

/// The same from what the system knows of this process's command line: MPI_INFO_ENV.
Ref<Info> environment_info(const Runtime& runtime);

}  // namespace isthmus::abi
