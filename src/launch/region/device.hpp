#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "launch/region/shared_region.hpp"
#include "wire/device.hpp"
#include "wire/region.hpp"

namespace isthmus::launch {

/// An ivshmem device of this virtual machine, or a file that stands in for one: memory that other virtual
/// machines of the host have too. Its BAR 2 is mapped through sysfs; no driver is needed.
class Device : public std::enable_shared_from_this<Device> {
 public:
  /// Where PCI devices are found: /sys/bus/pci/devices, but for tests.
  static constexpr const char* pci_folder = "/sys/bus/pci/devices";

  /// The one that `settings` names, or else the first, by PCI address, that this process may use. Null where
  /// there is none. An error where one is named and cannot be used; the reason is a part of a sentence.
  static Result<std::shared_ptr<Device>> find(const Settings& settings,
                                              const std::string& folder = pci_folder);
  /// Maps `path`; `name` is for people. `bytes` 0: the size that the file has.
  static Result<std::shared_ptr<Device>> open(const std::string& path, std::string name,
                                              wire::DeviceDirectory::Patience patience = {});

  [[nodiscard]] const std::string& name() const noexcept { return name_; }  ///< PCI address, or path
  /// In hexadecimal digits; equal for those who map the same memory.
  [[nodiscard]] std::string id() const;

  /// Makes a region for the job of `format` in the device, as large as it has room for: `preferred`, or
  /// smaller rings. Waits a few seconds for what dead jobs have left if there is no room.
  Result<SharedRegion> found(std::uint32_t slots, std::uint32_t world, wire::RingGeometry preferred,
                             const wire::RegionView::Format& format);
  /// The region that another process has founded.
  Result<SharedRegion> enter(const wire::JobKey& key);

 private:
  Device(std::string name, SharedMapping mapping, const wire::DeviceDirectory& directory)
      : name_(std::move(name)), mapping_(std::move(mapping)), directory_(directory) {}

  const std::string name_;
  const SharedMapping mapping_;
  wire::DeviceDirectory directory_;
};

}  // namespace isthmus::launch
