#pragma once

#include <cstdint>
#include <memory>

#include "launch/launcher/key_values.hpp"

/// What the shared object `libisthmus_pmix.so` gives to `find_key_values`: one symbol.
namespace isthmus::launch {

struct PmixPlugin {
  /// Of this interface and of `KeyValues`, first in the object for all time.
  std::uint32_t version;
  /// Joins the job that the PMIX_* variables name.
  Result<std::unique_ptr<KeyValues>> (*connect)();
};

/// To be raised with every change of `PmixPlugin` and of `KeyValues`.
inline constexpr std::uint32_t pmix_interface_version = 2;

inline constexpr const char* pmix_plugin_symbol = "isthmus_pmix_plugin";

}  // namespace isthmus::launch
