#pragma once

#include <ucs/type/status.h>

#include <string>

#include "base/error.hpp"

namespace isthmus::network {

/// What a UCX call answered, as a sentence that begins with `what`.
inline Error ucx_error(ErrorClass error_class, const std::string& what, ucs_status_t status) {
  return Error(error_class, what + ": " + ucs_status_string(status) + " (UCX)");
}

}  // namespace isthmus::network
