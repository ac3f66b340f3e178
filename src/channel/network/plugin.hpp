#pragma once

#include <cstdint>
#include <memory>

#include "channel/network/port.hpp"

/// What the shared object `libisthmus_network.so` gives to `network::open`: one symbol.
namespace isthmus::network {

struct Plugin {
  /// Of this interface, first in the object for all time. Anything that `Port`, `Events`, `Identity`,
  /// `Settings` or `Error` mean to both sides is part of it, so the two must be of one build: see
  /// `interface_version`.
  std::uint32_t version;
  std::uint32_t settings_bytes;  ///< sizeof(Settings)
  Result<std::unique_ptr<Port>> (*open)(const Settings& settings, Identity self, Events& events);
  Result<Inventory> (*inventory)(const Settings& settings);
};

/// To be raised with every change of `Plugin` and of what `port.hpp` declares.
inline constexpr std::uint32_t interface_version = 3;

inline constexpr const char* plugin_symbol = "isthmus_network_plugin";

}  // namespace isthmus::network
