// What the driver tells about a pointer.
#include <algorithm>

#include "memory/memory.hpp"

namespace isthmus::emulated {
namespace {

template <class T>
void put(void* where, T value) {
  *static_cast<T*>(where) = value;
}

/// Of memory that CUDA does not know.
void put_nothing(void* value, PointerAttribute attribute) {
  switch (attribute) {
    case PointerAttribute::memory_type:
    case PointerAttribute::is_managed:
    case PointerAttribute::is_legacy_ipc_capable:
    case PointerAttribute::is_mapped:
    case PointerAttribute::sync_memops:
    case PointerAttribute::access_flags:
      return put(value, 0);
    case PointerAttribute::is_rdma_capable:
      return put(value, false);
    case PointerAttribute::device_ordinal:
      return put(value, no_device);
    default:
      return put(value, std::uint64_t{0});
  }
}

/// The address if the kind of memory has one on that side, else nothing and an error for who asks for it
/// alone.
Status put_side(void* value, bool has, Address address) {
  put(value, has ? address : 0);
  return has ? Status::success : Status::invalid_value;
}

Status put_attribute(void* value, PointerAttribute attribute, const Allocation& memory, Address address) {
  const Origin origin = memory.origin;
  const bool readable = origin == Origin::pinned || origin == Origin::registered || origin == Origin::managed;
  const bool from_pool = origin == Origin::pool || origin == Origin::imported_pointer;
  switch (attribute) {
    case PointerAttribute::context:
      put(value, memory.context);
      return memory.context ? Status::success : Status::invalid_value;
    case PointerAttribute::memory_type:
      put(value,
          origin == Origin::pinned || origin == Origin::registered ? MemoryType::host : MemoryType::device);
      break;
    case PointerAttribute::device_pointer:
      put(value, address);
      break;
    case PointerAttribute::host_pointer:
      return put_side(value, readable, address);
    case PointerAttribute::sync_memops:
      put(value, static_cast<int>(memory.sync_memops));
      break;
    case PointerAttribute::buffer_id:
      put(value, memory.id);
      break;
    case PointerAttribute::block_id:
      put(value, memory.block);
      break;
    case PointerAttribute::is_managed:
      put(value, origin == Origin::managed ? 1 : 0);
      break;
    case PointerAttribute::device_ordinal:
      put(value, memory.device);
      break;
    case PointerAttribute::is_legacy_ipc_capable:
      put(value, origin == Origin::device ? 1 : 0);
      break;
    case PointerAttribute::range_start:
    case PointerAttribute::mapping_base:
      put(value, memory.base);
      break;
    case PointerAttribute::range_size:
    case PointerAttribute::mapping_size:
      put(value, memory.bytes);
      break;
    case PointerAttribute::is_mapped:
      put(value, 1);
      break;
    case PointerAttribute::allowed_handle_types:
      put(value, static_cast<std::uint64_t>(memory.handle_types));
      break;
    case PointerAttribute::is_rdma_capable:
      put(value, false);
      break;
    case PointerAttribute::access_flags:
      put(value, AccessFlags::read_write);
      break;
    case PointerAttribute::pool:
      put(value, from_pool ? memory.pool : nullptr);
      break;
    default:
      return Status::invalid_value;
  }
  return Status::success;
}

}  // namespace

extern "C" {

Status cuPointerGetAttribute(void* value, PointerAttribute attribute, Address address) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  const auto memory = driver()->addresses.find(address);
  if (!value || !memory) return Status::invalid_value;
  return put_attribute(value, attribute, *memory, address);
}

Status cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** values, Address address) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  const auto memory = driver()->addresses.find(address);
  for (unsigned i = 0; i < count; ++i) {
    put_nothing(values[i], attributes[i]);
    if (memory) put_attribute(values[i], attributes[i], *memory, address);
  }
  return Status::success;
}

Status cuPointerSetAttribute(const void* value, PointerAttribute attribute, Address address) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  const auto memory = driver()->addresses.find(address);
  if (!memory || attribute != PointerAttribute::sync_memops) return Status::invalid_value;
  memory->sync_memops = *static_cast<const unsigned*>(value);
  return Status::success;
}
}

}  // namespace isthmus::emulated
