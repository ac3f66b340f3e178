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

/// Whether UCX is to be handed memory of GPUs, where it can take it. Without the program's wish only where
/// there is an InfiniBand or RoCE device, and in a program that has loaded CUDA's driver: UCX initialises it.
[[nodiscard]] bool wants_gpu_memory(const Settings& settings);

/// What a context is made of: the user's variables `UCX_*`, and where they say nothing, what Isthmus wants.
/// Sets options of the whole library besides.
Result<UcxConfig> read_config(const Settings& settings);

}  // namespace isthmus::network
