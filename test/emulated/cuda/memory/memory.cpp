// cuMemAlloc, pinned and registered memory.
#include "memory/memory.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "memory/pools.hpp"
#include "streams/capture.hpp"
#include "streams/stream.hpp"

namespace isthmus::emulated {
namespace {

constexpr std::size_t page_unit = 4096;
/// cuMemAlloc aligns to so much; documented is 256.
constexpr std::size_t alignment = 512;

constexpr std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page_unit - 1) / page_unit * page_unit;
}

Held kind_of(Origin origin) {
  switch (origin) {
    case Origin::device:
      return Held::device_memory;
    case Origin::pinned:
      return Held::pinned_memory;
    case Origin::registered:
      return Held::registration;
    case Origin::managed:
      return Held::managed_memory;
    case Origin::mapped:
      return Held::mapping;
    case Origin::pool:
      return Held::pool_memory;
    case Origin::ipc:
      return Held::ipc_memory;
    default:
      return Held::imported_pointer;
  }
}

Status take_out(Address address, Origin origin) {
  Driver& cuda = *driver();
  wait_for_all_streams(cuda);
  const std::scoped_lock lock(cuda.mutex);
  const auto allocation = cuda.addresses.find(address);
  if (!allocation || allocation->base != address || allocation->origin != origin)
    return Status::invalid_value;
  forget(cuda, *allocation);
  return Status::success;
}

}  // namespace

bool charge(Driver& cuda, Device device, std::size_t bytes) {
  std::uint64_t& used = cuda.used[static_cast<std::size_t>(device)];
  if (bytes > settings().memory || used > settings().memory - bytes) return false;
  used += bytes;
  return true;
}

void discharge(Driver& cuda, Device device, std::size_t bytes) {
  if (cuda.machine.has(device)) cuda.used[static_cast<std::size_t>(device)] -= bytes;
}

std::shared_ptr<Allocation> add_allocation(Driver& cuda, Allocation allocation) {
  allocation.id = ++cuda.last_id;
  if (allocation.block == 0) allocation.block = allocation.id;
  ledger().opened(kind_of(allocation.origin));
  auto shared = std::make_shared<Allocation>(std::move(allocation));
  cuda.addresses.add(shared);
  return shared;
}

void forget(Driver& cuda, const Allocation& allocation) {
  const auto kept = cuda.addresses.remove(allocation.base);
  ledger().closed(kind_of(allocation.origin));
  switch (allocation.origin) {
    case Origin::pinned:
      cuda.pinned -= allocation.bytes;
      ::munmap(reinterpret_cast<void*>(allocation.base), whole_pages(allocation.bytes));
      return;
    case Origin::registered:
      cuda.pinned -= allocation.bytes;
      return;
    case Origin::device:
    case Origin::managed:
      withdraw(*allocation.backing);
      allocation.backing->header().token = 0;
      discharge(cuda, allocation.device, allocation.bytes);
      break;
    case Origin::pool:
      release_pool_memory(cuda, allocation);
      break;
    case Origin::mapped:
      return;  // the addresses belong to their reservation
    default:
      break;
  }
  cuda.addresses.release(allocation.base, allocation.bytes);
}

bool make_readable(const Allocation& allocation) {
  return ::mmap(reinterpret_cast<void*>(allocation.base), whole_pages(allocation.bytes),
                PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, allocation.backing->fd(),
                static_cast<off_t>(allocation.offset)) != MAP_FAILED;
}

extern "C" {

Status cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  const std::scoped_lock lock(driver()->mutex);
  *total = settings().memory;
  *free = *total - std::min<std::uint64_t>(*total, driver()->used[static_cast<std::size_t>(context->device)]);
  return Status::success;
}

Status cuMemAlloc_v2(Address* address, std::size_t bytes) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  ISTHMUS_PASS(unsafe_in_capture());
  if (!address || bytes == 0) return Status::invalid_value;
  Driver& cuda = *driver();
  const Alone alone;
  const std::scoped_lock lock(cuda.mutex);
  if (!charge(cuda, context->device, bytes)) return Status::out_of_memory;
  auto backing = Backing::create(BackingKind::device, cuda.machine.physical(context->device), bytes);
  const Address base = backing ? cuda.addresses.reserve(bytes, alignment) : 0;
  if (base == 0) {
    discharge(cuda, context->device, bytes);
    return Status::out_of_memory;
  }
  std::byte* view = backing->view();
  add_allocation(cuda, {.origin = Origin::device,
                        .base = base,
                        .bytes = bytes,
                        .view = view,
                        .backing = std::move(backing),
                        .device = context->device,
                        .context = context});
  *address = base;
  return Status::success;
}

Status cuMemFree_v2(Address address) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  if (address == 0) return Status::success;
  const Alone alone;
  for (const Origin origin : {Origin::device, Origin::managed, Origin::pool, Origin::imported_pointer})
    if (take_out(address, origin) == Status::success) return Status::success;
  return Status::invalid_value;
}

Status cuMemGetAddressRange_v2(Address* base, std::size_t* bytes, Address address) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  const std::scoped_lock lock(driver()->mutex);
  const auto allocation = driver()->addresses.find(address);
  if (!allocation || allocation->origin == Origin::registered) return Status::not_found;
  if (base) *base = allocation->base;
  if (bytes) *bytes = allocation->bytes;
  return Status::success;
}

Status cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  ISTHMUS_PASS(unsafe_in_capture());
  if (!address || bytes == 0) return Status::invalid_value;
  Driver& cuda = *driver();
  const Alone alone;
  const std::scoped_lock lock(cuda.mutex);
  if (bytes > settings().pinned || cuda.pinned > settings().pinned - bytes) return Status::out_of_memory;
  void* memory = ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return Status::out_of_memory;
  cuda.pinned += bytes;
  add_allocation(cuda, {.origin = Origin::pinned,
                        .base = reinterpret_cast<Address>(memory),
                        .bytes = bytes,
                        .view = static_cast<std::byte*>(memory),
                        .device = context->device,
                        .context = context});
  *address = memory;
  return Status::success;
}

Status cuMemAllocHost_v2(void** address, std::size_t bytes) {
  return cuMemHostAlloc(address, bytes, 0);
}

Status cuMemFreeHost(void* address) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  return take_out(reinterpret_cast<Address>(address), Origin::pinned);
}

Status cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  if (!address || bytes == 0) return Status::invalid_value;
  Driver& cuda = *driver();
  const Alone alone;
  const std::scoped_lock lock(cuda.mutex);
  const auto base = reinterpret_cast<Address>(address);
  if (cuda.addresses.overlaps(base, bytes)) return Status::host_memory_already_registered;
  if (bytes > settings().pinned || cuda.pinned > settings().pinned - bytes) return Status::out_of_memory;
  cuda.pinned += bytes;
  add_allocation(cuda, {.origin = Origin::registered,
                        .base = base,
                        .bytes = bytes,
                        .view = static_cast<std::byte*>(address),
                        .device = context->device,
                        .context = context});
  return Status::success;
}

Status cuMemHostUnregister(void* address) {
  ISTHMUS_PASS(enter());
  const Status status = take_out(reinterpret_cast<Address>(address), Origin::registered);
  return status == Status::invalid_value ? Status::host_memory_not_registered : status;
}

Status cuMemHostGetDevicePointer_v2(Address* address, void* host, unsigned) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  const auto allocation = driver()->addresses.find(reinterpret_cast<Address>(host));
  if (!allocation || allocation->on_device()) return Status::invalid_value;
  *address = reinterpret_cast<Address>(host);
  return Status::success;
}
}

}  // namespace isthmus::emulated
