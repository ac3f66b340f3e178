#pragma once

#include <string_view>

namespace isthmus::mpiexec::stuck {

/// The abstract UNIX socket at which mpiexec with that pid answers `isthmus stuck` is this and the pid.
inline constexpr std::string_view door_name = "isthmus/mpiexec/";

}  // namespace isthmus::mpiexec::stuck
