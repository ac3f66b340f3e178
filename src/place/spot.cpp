#include "place/spot.hpp"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "base/whole_number.hpp"

namespace isthmus {
namespace {

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool lies_in(const CpuSet& cpus, const std::string& list) {
  auto common = CpuSet::parse(line_of(list));
  if (!common) return false;
  *common &= cpus;
  return common->size() == cpus.size();
}

std::int32_t number_or_none(std::string_view text) {
  const auto number = whole_number<std::int32_t>(text);
  return number && *number >= 0 ? *number : -1;
}

/// The NUMA node of a hardware thread: a link `node3` in its folder.
std::int32_t node_of(const std::string& thread) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(thread, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node")) return number_or_none(std::string_view(name).substr(4));
  }
  return -1;
}

}  // namespace

Spot find_spot(const CpuSet& cpus, const std::string& sysfs) {
  Spot spot;
  const auto first = cpus.first();
  if (!first) return spot;
  const std::string system = sysfs + "/devices/system/";
  const std::string thread = system + "cpu/cpu" + std::to_string(*first);
  if (lies_in(cpus, thread + "/topology/core_siblings_list"))
    spot.package = number_or_none(line_of(thread + "/topology/physical_package_id"));
  const std::int32_t node = node_of(thread);
  if (node >= 0 && lies_in(cpus, system + "node/node" + std::to_string(node) + "/cpulist")) spot.numa = node;
  return spot;
}

}  // namespace isthmus
