// The virtual memory management: physical memory, addresses, and what maps one to the other.
#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>

#include "memory/memory.hpp"
#include "streams/capture.hpp"
#include "streams/stream.hpp"

namespace isthmus::emulated {

struct PhysicalMemory {
  std::shared_ptr<Backing> backing;
  AllocationProperties properties;
  unsigned handles = 1;  ///< that the program holds
  unsigned mappings = 0;
  std::uint64_t block = 0;
  bool is_imported = false;
};

namespace {

constexpr std::size_t mapping_granule = std::size_t{2} << 20;

bool has(HandleType set, HandleType type) {
  return (static_cast<int>(set) & static_cast<int>(type)) != 0;
}

std::shared_ptr<PhysicalMemory> find_physical(Physical handle) {
  const auto found = driver()->physical.find(handle);
  return found == driver()->physical.end() || found->second->handles == 0 ? nullptr : found->second;
}

Status check(const AllocationProperties* properties) {
  if (!properties || properties->type != AllocationType::pinned ||
      properties->location.type != LocationType::device)
    return Status::invalid_value;
  return driver()->machine.has(properties->location.id) ? Status::success : Status::invalid_device;
}

/// Lets go of physical memory that nobody holds and nothing maps.
void settle(Driver& cuda, Physical handle) {
  const auto found = cuda.physical.find(handle);
  if (found == cuda.physical.end() || found->second->handles > 0 || found->second->mappings > 0) return;
  const PhysicalMemory& memory = *found->second;
  if (!memory.is_imported) discharge(cuda, memory.properties.location.id, memory.backing->bytes());
  cuda.physical.erase(found);
}

Physical add_physical(Driver& cuda, PhysicalMemory memory) {
  memory.block = ++cuda.last_id;
  const Physical handle = memory.block << 8U;
  cuda.physical.emplace(handle, std::make_shared<PhysicalMemory>(std::move(memory)));
  ledger().opened(Held::physical);
  return handle;
}

/// Where the copy engine sees a range that lies in one reservation; null where it does not.
std::byte* view_of(const Driver& cuda, Address address, std::size_t bytes) {
  auto next = cuda.reservations.upper_bound(address);
  if (next == cuda.reservations.begin()) return nullptr;
  const auto& [base, reservation] = *std::prev(next);
  const std::size_t offset = address - base;
  return offset < reservation.bytes && bytes <= reservation.bytes - offset ? reservation.view + offset
                                                                           : nullptr;
}

constexpr int nothing_there = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

extern "C" {

Status cuMemGetAllocationGranularity(std::size_t* bytes, const AllocationProperties* properties,
                                     GranularityKind) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(check(properties));
  *bytes = mapping_granule;
  return Status::success;
}

Status cuMemCreate(Physical* handle, std::size_t bytes, const AllocationProperties* properties,
                   unsigned long long flags) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  if (settings().refuses(Refusal::vmm)) return Status::not_supported;
  ISTHMUS_PASS(check(properties));
  if (!handle || bytes == 0 || bytes % mapping_granule != 0 || flags != 0) return Status::invalid_value;
  if (has(properties->handle_types, HandleType::fabric)) return Status::not_permitted;
  Driver& cuda = *driver();
  const Device device = properties->location.id;
  const std::scoped_lock lock(cuda.mutex);
  if (!charge(cuda, device, bytes)) return Status::out_of_memory;
  auto backing = Backing::create(BackingKind::physical, cuda.machine.physical(device), bytes);
  if (!backing) {
    discharge(cuda, device, bytes);
    return Status::out_of_memory;
  }
  *handle = add_physical(cuda, {.backing = std::move(backing), .properties = *properties});
  return Status::success;
}

Status cuMemRelease(Physical handle) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  const auto memory = find_physical(handle);
  if (!memory) return Status::invalid_value;
  --memory->handles;
  ledger().closed(Held::physical);
  settle(cuda, handle);
  return Status::success;
}

Status cuMemRetainAllocationHandle(Physical* handle, void* address) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  const auto mapping = cuda.addresses.find(reinterpret_cast<Address>(address));
  if (!handle || !mapping || mapping->origin != Origin::mapped) return Status::invalid_value;
  const auto found = cuda.physical.find(mapping->physical);
  ++found->second->handles;
  ledger().opened(Held::physical);
  *handle = mapping->physical;
  return Status::success;
}

Status cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties, Physical handle) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  const std::scoped_lock lock(driver()->mutex);
  const auto memory = find_physical(handle);
  if (!memory) return Status::invalid_value;
  *properties = memory->properties;
  return Status::success;
}

Status cuMemExportToShareableHandle(void* shareable, Physical handle, HandleType type,
                                    unsigned long long flags) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  const std::scoped_lock lock(driver()->mutex);
  const auto memory = find_physical(handle);
  if (!memory || !shareable || flags != 0 || type != HandleType::posix_descriptor ||
      !has(memory->properties.handle_types, type) || settings().refuses(Refusal::ipc))
    return Status::invalid_value;
  const int fd = ::fcntl(memory->backing->fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return Status::operating_system;
  std::memcpy(shareable, &fd, sizeof fd);
  return Status::success;
}

Status cuMemImportFromShareableHandle(Physical* handle, void* shareable, HandleType type) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  if (!handle || type != HandleType::posix_descriptor) return Status::invalid_value;
  // A descriptor goes in the place of a pointer.
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
  auto backing = Backing::open(UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)), BackingKind::physical);
  if (!backing) return Status::invalid_value;
  const Device device = cuda.machine.ordinal(backing->header().device).value_or(no_device);
  const std::scoped_lock lock(cuda.mutex);
  *handle = add_physical(
      cuda, {.backing = std::move(backing),
             .properties = {.handle_types = type, .location = {.type = LocationType::device, .id = device}},
             .is_imported = true});
  return Status::success;
}

Status cuMemAddressReserve(Address* address, std::size_t bytes, std::size_t alignment, Address,
                           unsigned long long flags) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  if (!address || bytes == 0 || bytes % mapping_granule != 0 || flags != 0) return Status::invalid_value;
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  void* view = ::mmap(nullptr, bytes, PROT_NONE, nothing_there, -1, 0);
  if (view == MAP_FAILED) return Status::out_of_memory;
  *address = cuda.addresses.reserve(bytes, std::max(alignment, mapping_granule));
  if (*address == 0) {
    ::munmap(view, bytes);
    return Status::out_of_memory;
  }
  cuda.reservations.emplace(*address, Reservation{bytes, static_cast<std::byte*>(view)});
  ledger().opened(Held::reservation);
  return Status::success;
}

Status cuMemAddressFree(Address address, std::size_t bytes) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  const auto found = cuda.reservations.find(address);
  if (found == cuda.reservations.end() || found->second.bytes != bytes ||
      cuda.addresses.overlaps(address, bytes))
    return Status::invalid_value;
  ::munmap(found->second.view, bytes);
  cuda.reservations.erase(found);
  cuda.addresses.release(address, bytes);
  ledger().closed(Held::reservation);
  return Status::success;
}

Status cuMemMap(Address address, std::size_t bytes, std::size_t offset, Physical handle,
                unsigned long long flags) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  const auto memory = find_physical(handle);
  std::byte* const view = view_of(cuda, address, bytes);
  // Mapping a part of physical memory is not supported by the real driver either.
  if (!memory || flags != 0 || offset != 0 || bytes != memory->backing->bytes() || !view ||
      cuda.addresses.overlaps(address, bytes))
    return Status::invalid_value;
  if (::mmap(view, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->backing->fd(), 0) ==
      MAP_FAILED)
    return Status::out_of_memory;
  ++memory->mappings;
  add_allocation(cuda, {.origin = Origin::mapped,
                        .base = address,
                        .bytes = bytes,
                        .view = view,
                        .backing = memory->backing,
                        .device = memory->properties.location.id,
                        .block = memory->block,
                        .handle_types = memory->properties.handle_types,
                        .physical = handle});
  return Status::success;
}

Status cuMemUnmap(Address address, std::size_t bytes) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  wait_for_all_streams(cuda);
  const std::scoped_lock lock(cuda.mutex);
  const auto mapping = cuda.addresses.find(address);
  if (!mapping || mapping->origin != Origin::mapped || mapping->base != address || mapping->bytes != bytes)
    return Status::invalid_value;
  [[maybe_unused]] const void* gone =
      ::mmap(mapping->view, bytes, PROT_NONE, nothing_there | MAP_FIXED, -1, 0);
  forget(cuda, *mapping);
  const auto found = cuda.physical.find(mapping->physical);
  --found->second->mappings;
  settle(cuda, mapping->physical);
  return Status::success;
}

Status cuMemSetAccess(Address address, std::size_t bytes, const Access* accesses, std::size_t count) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  const auto mapping = cuda.addresses.find(address);
  if (!mapping || mapping->origin != Origin::mapped || mapping->base != address || mapping->bytes != bytes ||
      !accesses)
    return Status::invalid_value;
  for (std::size_t i = 0; i < count; ++i) {
    const Device device = accesses[i].location.id;
    if (accesses[i].location.type != LocationType::device) return Status::invalid_value;
    if (!cuda.machine.has(device) || !can_reach(cuda, device, mapping->backing->header().device))
      return Status::invalid_device;
    if (accesses[i].flags == AccessFlags::read_write) mapping->accessible.push_back(device);
  }
  return Status::success;
}
}

}  // namespace isthmus::emulated
