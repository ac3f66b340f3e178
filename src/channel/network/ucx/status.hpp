#pragma once

#include <ucs/type/status.h>

#include <string>

#include "base/error.hpp"
#include "channel/network/port.hpp"

namespace isthmus::network {

/// What a UCX call answered, as a sentence that begins with `what`.
inline Error ucx_error(ErrorClass error_class, const std::string& what, ucs_status_t status) {
  return Error(error_class, what + ": " + ucs_status_string(status) + " (UCX)");
}

/// Of an operation with rank `peer`.
inline Error not_reached(PeerId peer, ucs_status_t status) {
  return ucx_error(ErrorClass::proc_aborted, "rank " + std::to_string(peer) + " is not reached", status);
}

}  // namespace isthmus::network
