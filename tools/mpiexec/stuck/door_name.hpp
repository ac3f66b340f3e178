#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/system/unix_address.hpp"

namespace isthmus::mpiexec::stuck {

/// The abstract UNIX socket at which mpiexec with that pid answers `isthmus stuck` is this and the pid.
inline constexpr std::string_view door_name = "isthmus/mpiexec/";
inline UnixAddress door_of(pid_t pid) {
  return UnixAddress::abstract(std::string(door_name) + std::to_string(pid));
}

}  // namespace isthmus::mpiexec::stuck
