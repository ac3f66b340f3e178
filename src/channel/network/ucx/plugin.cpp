#include "channel/network/plugin.hpp"

#include "channel/network/ucx/inventory.hpp"
#include "channel/network/ucx/port.hpp"

// The one symbol of this object, under the name `isthmus::network::plugin_symbol`.
extern "C" __attribute__((visibility("default"))) const isthmus::network::Plugin isthmus_network_plugin{
    .version = isthmus::network::interface_version,
    .settings_bytes = sizeof(isthmus::Settings),
    .open = isthmus::network::UcxPort::open,
    .inventory = isthmus::network::inventory_of_ucx,
};
