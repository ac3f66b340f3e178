#include "gpu/driver/gpu.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {
namespace {

/// PCI addresses are in small letters under /sys.
std::string small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

int numa_of(const cuda::Functions& functions, const Gpu& gpu) {
  int node = -1;
  if (std::ifstream file("/sys/bus/pci/devices/" + gpu.pci + "/numa_node"); file >> node && node >= 0)
    return node;
  if (functions.device_attribute(&node, cuda::DeviceAttribute::host_numa_id, gpu.ordinal) !=
      cuda::Status::success)
    return -1;
  return node;
}

Result<Gpu> describe(const cuda::Functions& functions, int ordinal) {
  Gpu gpu;
  std::array<char, 256> name{};
  std::array<char, 32> pci{};
  cuda::Status status = functions.device_get(&gpu.ordinal, ordinal);
  if (status == cuda::Status::success) status = functions.device_uuid(&gpu.uuid, gpu.ordinal);
  if (status == cuda::Status::success)
    status = functions.device_name(name.data(), name.size() - 1, gpu.ordinal);
  if (status == cuda::Status::success) status = functions.device_pci(pci.data(), pci.size() - 1, gpu.ordinal);
  if (status != cuda::Status::success)
    return cuda::fail(functions, status, "describe GPU " + std::to_string(ordinal));
  gpu.name = name.data();
  gpu.pci = small_letters(pci.data());
  gpu.numa = numa_of(functions, gpu);
  return gpu;
}

PeerLink link_between(const cuda::Functions& functions, cuda::Device from, cuda::Device to) {
  if (from == to) return PeerLink::nvlink;
  int can = 0;
  if (functions.device_can_access_peer(&can, from, to) != cuda::Status::success || can == 0)
    return PeerLink::none;
  int atomic = 0;
  const cuda::Status status =
      functions.device_peer_attribute(&atomic, cuda::PeerAttribute::native_atomic_supported, from, to);
  return status == cuda::Status::success && atomic != 0 ? PeerLink::nvlink : PeerLink::pcie;
}

}  // namespace

std::string_view name_of(PeerLink link) {
  constexpr std::array<std::string_view, 3> names{"none", "PCIe", "NVLink"};
  return names[static_cast<std::size_t>(link)];
}

std::string to_string(const cuda::Uuid& uuid) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "GPU";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[uuid.bytes[i] >> 4];
    text += digits[uuid.bytes[i] & 15];
  }
  return text;
}

Result<GpuList> GpuList::read(const cuda::Functions& functions) {
  int count = 0;
  if (const cuda::Status status = functions.device_count(&count); status != cuda::Status::success)
    return cuda::fail(functions, status, "count the GPUs");
  GpuList list;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    auto gpu = describe(functions, ordinal);
    if (!gpu) return std::unexpected(std::move(gpu).error());
    list.gpus_.push_back(std::move(*gpu));
  }
  for (const Gpu& from : list.gpus_)
    for (const Gpu& to : list.gpus_)
      list.links_.push_back(link_between(functions, from.ordinal, to.ordinal));
  return list;
}

std::optional<cuda::Device> GpuList::find(const cuda::Uuid& uuid) const noexcept {
  for (const Gpu& gpu : gpus_)
    if (gpu.uuid == uuid) return gpu.ordinal;
  return std::nullopt;
}

PeerLink GpuList::link(cuda::Device from, cuda::Device to) const noexcept {
  // Negative ordinals become large.
  const auto row = static_cast<std::size_t>(from);
  const auto column = static_cast<std::size_t>(to);
  if (row >= gpus_.size() || column >= gpus_.size()) return PeerLink::none;
  return links_[row * gpus_.size() + column];
}

}  // namespace isthmus
