// Memory pools: one backing each, from which allocations are cut in the order of streams.
#include "memory/pools.hpp"
#include "streams/capture.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "memory/memory.hpp"
#include "streams/stream.hpp"

namespace isthmus::emulated {
namespace {

constexpr std::size_t pool_unit = 4096;
constexpr std::size_t default_bytes = std::size_t{1} << 30;

/// What a `PoolPointer` holds.
struct Pointer {
  std::uint64_t mark = BackingHeader::expected_mark;
  std::uint64_t pool = 0;  ///< token of the pool's backing
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t slot = 0;
  std::uint64_t id = 0;
};
static_assert(sizeof(Pointer) <= sizeof(PoolPointer));

std::shared_ptr<PoolObject> make_pool(Driver& cuda, Device device, HandleType types, std::size_t bytes) {
  auto backing = Backing::create(BackingKind::pool, cuda.machine.physical(device), bytes);
  if (!backing) return nullptr;
  auto pool = std::make_shared<PoolObject>();
  pool->device = device;
  pool->handle_types = types;
  pool->backing = std::move(backing);
  pool->free.add(0, bytes);
  pool->accessible.push_back(device);
  return pool;
}

std::size_t rounded(std::size_t bytes) {
  return (bytes + pool_unit - 1) / pool_unit * pool_unit;
}

/// A free place in the table of live allocations.
std::size_t free_slot(const BackingHeader& header) {
  for (std::size_t i = 0; i < BackingHeader::slots; ++i)
    if (header.live[i] == 0) return i;
  return BackingHeader::slots;
}

Status allocate(Address* address, std::size_t bytes, Pool handle) {
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  const auto pool = cuda.pools.find(handle);
  if (!pool || !address || bytes == 0 || pool->is_imported) return Status::invalid_value;
  const std::size_t slot = free_slot(pool->backing->header());
  if (slot == BackingHeader::slots || !charge(cuda, pool->device, bytes)) return Status::out_of_memory;
  const Address base = cuda.addresses.reserve(bytes, pool_unit);
  const auto offset = pool->free.take(rounded(bytes), pool_unit);
  if (base == 0 || !offset) {
    discharge(cuda, pool->device, bytes);
    if (base != 0) cuda.addresses.release(base, bytes);
    if (offset) pool->free.add(*offset, rounded(bytes));
    return Status::out_of_memory;
  }
  const auto memory = add_allocation(cuda, {.origin = Origin::pool,
                                            .base = base,
                                            .bytes = bytes,
                                            .view = pool->backing->view() + *offset,
                                            .backing = pool->backing,
                                            .offset = *offset,
                                            .device = pool->device,
                                            .handle_types = pool->handle_types,
                                            .pool = handle,
                                            .slot = slot});
  pool->backing->header().live[slot] = memory->id;
  *address = base;
  return Status::success;
}

}  // namespace

void make_default_pools(Driver& cuda) {
  for (Device device = 0; device < cuda.machine.visible(); ++device) {
    auto pool = make_pool(cuda, device, HandleType::none, default_bytes);
    const auto index = static_cast<std::size_t>(device);
    cuda.default_pools[index] = cuda.current_pools[index] = cuda.pools.add(std::move(pool));
  }
}

void release_pool_memory(Driver& cuda, const Allocation& allocation) {
  allocation.backing->header().live[allocation.slot] = 0;
  discharge(cuda, allocation.device, allocation.bytes);
  if (const auto pool = cuda.pools.find(allocation.pool))
    pool->free.add(allocation.offset, rounded(allocation.bytes));
}

extern "C" {

Status cuMemPoolCreate(Pool* handle, const PoolProperties* properties) {
  ISTHMUS_PASS(enter());
  Driver& cuda = *driver();
  if (settings().refuses(Refusal::pool)) return Status::not_supported;
  if (!handle || !properties || properties->type != AllocationType::pinned ||
      properties->location.type != LocationType::device)
    return Status::invalid_value;
  if (!cuda.machine.has(properties->location.id)) return Status::invalid_device;
  const std::scoped_lock lock(cuda.mutex);
  auto pool = make_pool(cuda, properties->location.id, properties->handle_types,
                        rounded(properties->maximum ? properties->maximum : default_bytes));
  if (!pool) return Status::out_of_memory;
  *handle = cuda.pools.add(std::move(pool));
  ledger().opened(Held::pool);
  return Status::success;
}

Status cuMemPoolDestroy(Pool handle) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  const std::scoped_lock lock(driver()->mutex);
  const auto& defaults = driver()->default_pools;
  if (std::find(defaults.begin(), defaults.end(), handle) != defaults.end()) return Status::invalid_value;
  const auto pool = driver()->pools.remove(handle);
  if (!pool) return Status::invalid_value;
  ledger().closed(pool->is_imported ? Held::imported_pool : Held::pool);
  return Status::success;
}

Status cuMemPoolSetAccess(Pool handle, const Access* accesses, std::size_t count) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  const auto pool = cuda.pools.find(handle);
  if (!pool || (count > 0 && !accesses)) return Status::invalid_value;
  for (std::size_t i = 0; i < count; ++i) {
    const Device device = accesses[i].location.id;
    if (accesses[i].location.type != LocationType::device) return Status::invalid_value;
    if (!cuda.machine.has(device)) return Status::invalid_device;
    if (!can_reach(cuda, device, pool->backing->header().device)) return Status::invalid_device;
    if (accesses[i].flags == AccessFlags::read_write) pool->accessible.push_back(device);
  }
  return Status::success;
}

Status cuMemPoolSetAttribute(Pool handle, PoolAttribute, void* value) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  return value && driver()->pools.find(handle) ? Status::success : Status::invalid_value;
}

Status cuMemPoolTrimTo(Pool handle, std::size_t) {
  return cuMemPoolSetAttribute(handle, PoolAttribute::release_threshold, &handle);
}

Status cuDeviceGetDefaultMemPool(Pool* pool, Device device) {
  ISTHMUS_PASS(enter_query());
  if (!driver()->machine.has(device)) return Status::invalid_device;
  *pool = driver()->default_pools[static_cast<std::size_t>(device)];
  return Status::success;
}

Status cuDeviceGetMemPool(Pool* pool, Device device) {
  ISTHMUS_PASS(enter_query());
  if (!driver()->machine.has(device)) return Status::invalid_device;
  const std::scoped_lock lock(driver()->mutex);
  *pool = driver()->current_pools[static_cast<std::size_t>(device)];
  return Status::success;
}

Status cuDeviceSetMemPool(Device device, Pool handle) {
  ISTHMUS_PASS(enter_query());
  if (!driver()->machine.has(device)) return Status::invalid_device;
  const std::scoped_lock lock(driver()->mutex);
  if (!driver()->pools.find(handle)) return Status::invalid_value;
  driver()->current_pools[static_cast<std::size_t>(device)] = handle;
  return Status::success;
}

Status cuMemAllocFromPoolAsync(Address* address, std::size_t bytes, Pool pool, Stream stream) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  ISTHMUS_PASS(allocate(address, bytes, pool));
  return submit(stream, [] {});
}

Status cuMemAllocAsync(Address* address, std::size_t bytes, Stream stream) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  Pool pool = nullptr;
  ISTHMUS_PASS(cuDeviceGetMemPool(&pool, context->device));
  return cuMemAllocFromPoolAsync(address, bytes, pool, stream);
}

Status cuMemFreeAsync(Address address, Stream stream) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  {
    const std::scoped_lock lock(driver()->mutex);
    const auto memory = driver()->addresses.find(address);
    if (!memory || memory->base != address ||
        (memory->origin != Origin::pool && memory->origin != Origin::imported_pointer))
      return Status::invalid_value;
  }
  return submit(stream, [address] {
    const std::scoped_lock lock(driver()->mutex);
    if (const auto memory = driver()->addresses.find(address)) forget(*driver(), *memory);
  });
}

Status cuMemPoolExportToShareableHandle(void* shareable, Pool handle, HandleType type,
                                        unsigned long long flags) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  const std::scoped_lock lock(driver()->mutex);
  const auto pool = driver()->pools.find(handle);
  if (!pool || !shareable || flags != 0 || pool->is_imported || type != HandleType::posix_descriptor ||
      pool->handle_types != type || settings().refuses(Refusal::ipc))
    return Status::invalid_value;
  const int fd = ::fcntl(pool->backing->fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return Status::operating_system;
  std::memcpy(shareable, &fd, sizeof fd);
  return Status::success;
}

Status cuMemPoolImportFromShareableHandle(Pool* handle, void* shareable, HandleType type,
                                          unsigned long long flags) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  if (!handle || flags != 0 || type != HandleType::posix_descriptor) return Status::invalid_value;
  // A descriptor goes in the place of a pointer.
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
  auto backing = Backing::open(UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)), BackingKind::pool);
  if (!backing) return Status::invalid_value;
  const std::scoped_lock lock(cuda.mutex);
  auto pool = std::make_shared<PoolObject>();
  // A pool of a device that this process does not see is nobody's here.
  pool->device = cuda.machine.ordinal(backing->header().device).value_or(no_device);
  pool->handle_types = type;
  pool->backing = std::move(backing);
  pool->is_imported = true;
  *handle = cuda.pools.add(std::move(pool));
  ledger().opened(Held::imported_pool);
  return Status::success;
}

Status cuMemPoolExportPointer(PoolPointer* data, Address address) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  const std::scoped_lock lock(driver()->mutex);
  const auto memory = driver()->addresses.find(address);
  if (!data || !memory || memory->origin != Origin::pool || memory->base != address)
    return Status::invalid_value;
  const Pointer pointer{.pool = memory->backing->header().token,
                        .offset = memory->offset,
                        .bytes = memory->bytes,
                        .slot = memory->slot,
                        .id = memory->id};
  std::memcpy(data->bytes.data(), &pointer, sizeof pointer);
  return Status::success;
}

Status cuMemPoolImportPointer(Address* address, Pool handle, PoolPointer* data) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  const auto pool = cuda.pools.find(handle);
  if (!address || !data || !pool || !pool->is_imported) return Status::invalid_value;
  Pointer pointer;
  std::memcpy(static_cast<void*>(&pointer), data->bytes.data(), sizeof pointer);
  const BackingHeader& header = pool->backing->header();
  if (pointer.mark != BackingHeader::expected_mark || pointer.pool != header.token ||
      pointer.slot >= BackingHeader::slots || header.live[pointer.slot] != pointer.id ||
      pointer.offset + pointer.bytes > header.bytes)
    return Status::invalid_value;
  const Address base = cuda.addresses.reserve(pointer.bytes, pool_unit);
  if (base == 0) return Status::out_of_memory;
  add_allocation(cuda, {.origin = Origin::imported_pointer,
                        .base = base,
                        .bytes = pointer.bytes,
                        .view = pool->backing->view() + pointer.offset,
                        .backing = pool->backing,
                        .offset = pointer.offset,
                        .device = pool->device,
                        .pool = handle});
  *address = base;
  return Status::success;
}
}

}  // namespace isthmus::emulated
