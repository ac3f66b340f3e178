#include <algorithm>
#include <vector>

#include "channel/network/ucx/active_message.hpp"

namespace isthmus::network {

std::string describe_lanes(std::string_view printed) {
  std::vector<std::string> lanes;
  for (std::size_t at = printed.find("lane["); at != std::string_view::npos;
       at = printed.find("lane[", at + 1)) {
    std::string_view line = printed.substr(at, printed.find('\n', at) - at);
    line.remove_prefix(std::min(line.size(), line.find(']') + 2));
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
    line = line.substr(0, line.find(' '));
    const std::size_t colon = line.find(':');
    const std::size_t slash = line.find('/');
    if (colon == std::string_view::npos || slash == std::string_view::npos || slash < colon) continue;
    const std::string_view device = line.substr(slash + 1);
    std::string lane(line.substr(colon + 1, slash - colon - 1));
    lane += " on ";
    lane += device.substr(0, device.rfind('.'));
    if (std::ranges::find(lanes, lane) == lanes.end()) lanes.push_back(std::move(lane));
  }
  std::string all;
  for (const std::string& lane : lanes)
    all += (all.empty() ? "" : ", ") + lane;
  return all.empty() ? "unknown" : all;
}

}  // namespace isthmus::network
