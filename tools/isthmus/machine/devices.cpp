#include <fmt/format.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "gpu/copy/gdr_driver.hpp"
#include "kernels/image.hpp"
#include "machine/machine_facts.hpp"
#include "place/gpus.hpp"

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

std::string joined(const std::vector<std::string>& texts, const std::string& none) {
  return texts.empty() ? none : fmt::format("{}", fmt::join(texts, "; "));
}

void add_gpus(Section& section) {
  const Gpus gpus = find_gpus();
  Json list = Json::array();
  std::vector<std::string> texts;
  for (const Gpu& gpu : gpus.all) {
    list.push_back({{"name", gpu.name},
                    {"uuid", gpu.uuid},
                    {"bus", gpu.bus},
                    {"bytes", gpu.bytes == 0 ? Json() : Json(gpu.bytes)},
                    {"driver", gpus.driver}});
    texts.push_back(
        fmt::format("{} at {}{}", gpu.name, gpu.bus, gpu.bytes ? ", " + bytes_text(gpu.bytes) : ""));
  }
  if (!texts.empty()) texts.push_back("driver " + gpus.driver + "; MPI calls take their memory");
  section.add("gpus", "GPUs", list, joined(texts, "none found"));
}

void add_gpu_kernels(Section& section) {
  const std::string_view targets = kernel_targets();
  section.add("gpu_kernels", "kernels for GPUs", targets.empty() ? Json() : Json(targets),
              targets.empty() ? "none, since this was built without nvcc: datatypes with gaps in GPU memory "
                                "are copied a block at a "
                                "time, and reductions are computed by the host. ./dev setup installs an nvcc"
                              : fmt::format("for {}: datatypes with gaps, and reductions", targets));
}

void add_gdrcopy(Section& section) {
  const auto driver = GdrDriver::open();
  int major = 0;
  int minor = 0;
  if (driver) (*driver)->functions().version(&major, &minor);
  section.add("gdrcopy", "GDRCopy", driver ? Json(fmt::format("{}.{}", major, minor)) : Json(),
              driver
                  ? fmt::format("{}.{}: the processor loads and stores short messages in GPU memory itself",
                                major, minor)
                  : driver.error().text());
}

/// Memory that virtual machines of one host share: an ivshmem-plain device.
void add_shared_memory_devices(Section& section) {
  Json list = Json::array();
  std::vector<std::string> texts;
  for (const fs::path& device : entries("/sys/bus/pci/devices")) {
    if (first_line(device / "vendor") != "0x1af4" || first_line(device / "device") != "0x1110") continue;
    std::error_code error;
    const fs::path memory = device / "resource2";
    const std::uint64_t bytes = fs::file_size(memory, error);
    const bool usable = !error && ::access(memory.c_str(), R_OK | W_OK) == 0;
    const std::string address = device.filename();
    list.push_back({{"address", address}, {"bytes", error ? Json() : Json(bytes)}, {"usable", usable}});
    texts.push_back(
        fmt::format("{}: {}", address,
                    error    ? "its memory cannot be seen: " + error.message()
                    : usable ? bytes_text(bytes) + " in common with other virtual machines"
                             : bytes_text(bytes) + ", but this user may not write to " + memory.string()));
  }
  section.add("ivshmem", list, joined(texts, "none found: virtual machines share no memory with this one"));
}

/// Of each port of each InfiniBand or RoCE device.
void add_infiniband(Section& section) {
  Json list = Json::array();
  std::vector<std::string> texts;
  for (const fs::path& device : entries("/sys/class/infiniband"))
    for (const fs::path& port : entries(device / "ports")) {
      const std::string name = fmt::format("{}:{}", device.filename().string(), port.filename().string());
      const std::string layer = first_line(port / "link_layer");
      const std::string state = first_line(port / "state");  // "4: ACTIVE"
      const std::string rate = first_line(port / "rate");
      const bool active = state.ends_with("ACTIVE");
      list.push_back(
          {{"port", name}, {"link_layer", layer}, {"state", state}, {"rate", rate}, {"active", active}});
      texts.push_back(fmt::format("{} ({}, {}, {}){}", name, layer == "Ethernet" ? "RoCE" : layer,
                                  state.substr(std::min(state.size(), state.find(' ') + 1)), rate,
                                  active ? "" : ": carries nothing"));
    }
  if (!texts.empty() && !fs::exists("/dev/infiniband"))
    texts.emplace_back("but /dev/infiniband is not here, as in containers that were not given it");
  section.add("infiniband", "InfiniBand, RoCE", list,
              joined(texts, "none found: transports rc and ud are not to be had"));
}

void add_interface(Section& section, Json& list, const fs::path& device) {
  const std::string name = device.filename();
  const std::string state = first_line(device / "operstate");
  const std::string speed_text = first_line(device / "speed");
  const std::string mtu_text = first_line(device / "mtu");
  int speed = 0;  // Mbit/s; the kernel says -1 or an error where it does not know
  std::from_chars(speed_text.data(), speed_text.data() + speed_text.size(), speed);
  int mtu = 0;
  std::from_chars(mtu_text.data(), mtu_text.data() + mtu_text.size(), mtu);
  unsigned flags = 0;
  const std::string flags_text = first_line(device / "flags");  // "0x1003"
  if (flags_text.starts_with("0x"))
    std::from_chars(flags_text.data() + 2, flags_text.data() + flags_text.size(), flags, 16);
  const bool loopback = (flags & IFF_LOOPBACK) != 0;
  list.push_back({{"name", name},
                  {"state", state},
                  {"megabits_per_second", speed > 0 ? Json(speed) : Json()},
                  {"mtu", mtu},
                  {"loopback", loopback}});
  std::string text = loopback                ? "loopback: reaches this network namespace alone"
                     : (flags & IFF_UP) != 0 ? "up: transport tcp"
                                             : "down: carries nothing";
  if (speed > 0) text += fmt::format(", {:g} Gbit/s", speed / 1000.0);
  if (mtu > 0) text += fmt::format(", MTU {}", mtu);
  section.add("interface_" + name, name, list.back(), text);
}

void add_interfaces(Section& section) {
  Json list = Json::array();
  for (const fs::path& device : entries("/sys/class/net")) {
    std::error_code error;
    if (fs::is_directory(device, error)) add_interface(section, list, device);  // not bonding_masters
  }
  if (list.empty()) section.add("interfaces", "network", list, "no interface: no messages to other hosts");
}

}  // namespace

Section device_facts() {
  Section section{.key = "devices", .title = "Devices", .facts = {}};
  add_gpus(section);
  add_gpu_kernels(section);
  add_gdrcopy(section);
  add_shared_memory_devices(section);
  add_infiniband(section);
  add_interfaces(section);
  return section;
}

}  // namespace isthmus::tool
