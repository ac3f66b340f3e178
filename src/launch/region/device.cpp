#include "launch/region/device.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "launch/region/tenant.hpp"

namespace isthmus::launch {
namespace {

namespace fs = std::filesystem;
using wire::DeviceDirectory;

/// What a region takes of a device at first: the rest is for other jobs.
constexpr std::uint64_t first_share = 2;
constexpr std::uint64_t last_share = 64;

std::string first_word(const fs::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

/// ivshmem-plain and ivshmem-doorbell, by their PCI ids.
bool is_ivshmem(const fs::path& device) {
  return first_word(device / "vendor") == "0x1af4" && first_word(device / "device") == "0x1110";
}

std::vector<fs::path> ivshmem_devices(const std::string& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (is_ivshmem(entry->path())) found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

Result<std::shared_ptr<Device>> open_pci(const fs::path& device) {
  return Device::open(device / "resource2", device.filename());
}

}  // namespace

Result<std::shared_ptr<Device>> Device::find(const Settings& settings, const std::string& folder) {
  const std::string& wanted = settings.ivshmem;
  if (wanted == "off") return nullptr;
  if (wanted.starts_with('/')) return open(wanted, wanted);
  if (wanted != "auto") {
    const fs::path device = fs::path(folder) / wanted;
    if (!is_ivshmem(device)) return fail(ErrorClass::arg, "there is no ivshmem device of that PCI address");
    return open_pci(device);
  }
  for (const fs::path& device : ivshmem_devices(folder))
    if (auto opened = open_pci(device)) return opened;
  return nullptr;
}

Result<std::shared_ptr<Device>> Device::open(const std::string& path, std::string name,
                                             DeviceDirectory::Patience patience) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0)
    return fail(ErrorClass::other, path + ": " + std::generic_category().message(errno));
  if (status.st_size <= 0) return fail(ErrorClass::other, path + " is empty");
  auto mapping = SharedMapping::map(file.get(), static_cast<std::uint64_t>(status.st_size));
  if (!mapping) return fail(ErrorClass::other, path + " cannot be mapped: " + mapping.error().text());
  auto directory = DeviceDirectory::open(mapping->memory(), patience);
  if (!directory) return fail(directory.error().error_class(), path + ": " + directory.error().text());
  return std::shared_ptr<Device>(new Device(std::move(name), std::move(*mapping), *directory));
}

std::string Device::id() const {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : directory_.id()) {
    text += digits[byte >> 4U];
    text += digits[byte & 0xfU];
  }
  return text;
}

Result<SharedRegion> Device::found(std::uint32_t slots, std::uint32_t world, wire::RingGeometry preferred,
                                   const wire::RegionView::Format& format) {
  std::optional<Error> problem;
  for (const bool waited : {false, true}) {
    if (waited) {
      auto freed = directory_.reclaim();
      if (!freed) return std::unexpected(std::move(freed).error());
      if (!*freed) break;
    }
    for (std::uint64_t share = first_share; share <= last_share; share *= 2) {
      auto shape = wire::RegionShape::fitting(slots, world, preferred, directory_.capacity() / share);
      if (!shape) {
        if (!problem) problem = std::move(shape).error();
        break;
      }
      auto layout = wire::RegionLayout::make(*shape);
      if (!layout) return std::unexpected(std::move(layout).error());
      auto tenancy = directory_.take(format.key, layout->bytes);
      if (!tenancy) {
        problem = std::move(tenancy).error();
        continue;
      }
      auto tenant = Tenant::make(shared_from_this(), directory_, *tenancy);
      if (!tenant) return std::unexpected(std::move(tenant).error());
      const std::span<std::byte> memory = directory_.memory(*tenancy);
      std::memset(memory.data(), 0, memory.size());
      const auto view = wire::RegionView::format(memory, *layout, format);
      return SharedRegion{
          .fd = {}, .mapping = {std::move(*tenant), &mapping_}, .view = view, .device = name_};
    }
  }
  return std::unexpected(std::move(*problem));
}

Result<SharedRegion> Device::enter(const wire::JobKey& key) {
  auto tenancy = directory_.enter(key);
  if (!tenancy) return std::unexpected(std::move(tenancy).error());
  auto tenant = Tenant::make(shared_from_this(), directory_, *tenancy);
  if (!tenant) return std::unexpected(std::move(tenant).error());
  const auto view = wire::RegionView::open(directory_.memory(*tenancy));
  if (!view) return fail(view.error().error_class(), view.error().text());
  if (view->header().key != key) return fail(ErrorClass::intern, "it holds the region of another job");
  return SharedRegion{.fd = {}, .mapping = {std::move(*tenant), &mapping_}, .view = *view, .device = name_};
}

}  // namespace isthmus::launch
