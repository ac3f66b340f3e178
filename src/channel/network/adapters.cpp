#include "channel/network/adapters.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace isthmus::network {

bool has_adapter(std::string_view vendor) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto is_meant = [vendor](const fs::directory_entry& device) {
    std::string found;
    std::ifstream(device.path() / "device/vendor") >> found;
    return vendor.empty() || vendor == found;
  };
  for (fs::directory_iterator next("/sys/class/infiniband", error), end; !error && next != end;
       next.increment(error))
    if (is_meant(*next)) return true;
  return false;
}

}  // namespace isthmus::network
