#pragma once

#include <string_view>

namespace isthmus::network {

/// Whether there is an InfiniBand or RoCE device on this machine, and of this vendor where one is named
/// ("0x15b3").
[[nodiscard]] bool has_adapter(std::string_view vendor = {});

}  // namespace isthmus::network
