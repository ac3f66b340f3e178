#include "devices.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/plugin.hpp"
#include "channel/network/plugin.hpp"

namespace isthmus::tool {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator next(folder, error), end; !error && next != end; next.increment(error))
    found.push_back(next->path());
  std::ranges::sort(found);
  return found;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "";
}

std::string bytes_text(std::uint64_t bytes) {
  return bytes >= (1U << 30)   ? fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1U << 30))
         : bytes >= (1U << 20) ? fmt::format("{} MiB", bytes >> 20)
                               : fmt::format("{} KiB", bytes >> 10);
}

}  // namespace

Row shared_memory_folder() {
  struct statvfs status{};
  if (::statvfs("/dev/shm", &status) != 0)
    return {"/dev/shm", fmt::format("{}; jobs of mpiexec do not need it", std::strerror(errno))};
  const std::uint64_t unit = status.f_frsize;
  return {"/dev/shm", fmt::format("{} of {} free; jobs keep no memory in it, their regions are memfds",
                                  bytes_text(status.f_bavail * unit), bytes_text(status.f_blocks * unit))};
}

std::vector<Row> network_devices() {
  std::vector<Row> rows;
  for (const fs::path& device : entries("/sys/class/infiniband"))
    rows.emplace_back(device.filename(), "InfiniBand or RoCE: transports rc and ud");
  for (const fs::path& device : entries("/sys/class/net")) {
    std::error_code error;
    if (!fs::is_directory(device, error)) continue;  // such as bonding_masters
    const bool loopback = device.filename() == "lo";
    const std::string state = first_line(device / "operstate");
    rows.emplace_back(device.filename(), loopback ? "loopback: reaches this network namespace alone"
                                                  : fmt::format("{}: transport tcp", state));
  }
  if (rows.empty()) rows.emplace_back("none", "no messages to other hosts");
  return rows;
}

std::vector<Row> loadable_parts() {
  constexpr PluginObject network{.file = "libisthmus_network.so",
                                 .symbol = network::plugin_symbol,
                                 .role = "the network library",
                                 .foreign = "UCX",
                                 .build_package = "libucx-dev",
                                 .run_package = "libucx0"};
  constexpr PluginObject pmix{.file = "libisthmus_pmix.so",
                              .symbol = "isthmus_pmix_plugin",
                              .role = "the library for launchers that speak PMIx",
                              .foreign = "PMIx",
                              .build_package = "libpmix-dev",
                              .run_package = "libpmix2"};
  const auto ucx = load_plugin(network);
  const auto ranks = load_plugin(pmix);
  return {{"network (UCX)",
           ucx ? "loads: jobs on several hosts; which transport a pair takes, isthmus explain tells"
               : "no jobs on several hosts: " + ucx.error().text()},
          {"PMIx", ranks ? "loads: ranks of srun --mpi=pmix and of orterun"
                         : "no ranks of srun --mpi=pmix and of orterun: " + ranks.error().text()}};
}

std::vector<Row> shared_devices() {
  std::vector<Row> rows;
  for (const fs::path& device : entries("/sys/bus/pci/devices")) {
    if (first_line(device / "vendor") != "0x1af4" || first_line(device / "device") != "0x1110") continue;
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(device / "resource2", error);
    rows.emplace_back(device.filename(), error ? "ivshmem; its memory cannot be seen: " + error.message()
                                               : "ivshmem, " + bytes_text(bytes) +
                                                     ": memory in common with other virtual machines");
  }
  if (rows.empty())
    rows.emplace_back("ivshmem", "no such device: virtual machines share no memory with this one");
  return rows;
}

}  // namespace isthmus::tool
