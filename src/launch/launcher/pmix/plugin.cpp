#include "launch/launcher/pmix/plugin.hpp"

#include "launch/launcher/pmix/client.hpp"

// The one symbol of this object, under the name `isthmus::launch::pmix_plugin_symbol`.
extern "C" __attribute__((visibility("default"))) const isthmus::launch::PmixPlugin isthmus_pmix_plugin{
    .version = isthmus::launch::pmix_interface_version,
    .connect = isthmus::launch::PmixClient::connect,
};
