#pragma once

#include <ucp/api/ucp.h>

#include <memory>

#include "base/error.hpp"
#include "base/settings.hpp"

namespace isthmus::network {

struct ReleaseConfig {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};
using UcxConfig = std::unique_ptr<ucp_config_t, ReleaseConfig>;

/// What a context is made of: the user's variables `UCX_*`, and where they say nothing, what Isthmus wants.
/// Sets options of the whole library besides.
Result<UcxConfig> read_config(const Settings& settings);

}  // namespace isthmus::network
