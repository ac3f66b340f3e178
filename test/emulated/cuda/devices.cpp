// The driver itself and its devices.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "contexts.hpp"
#include "guard.hpp"
#include "memory/pools.hpp"
#include "modules.hpp"
#include "moves.hpp"

namespace isthmus::emulated {
namespace {

std::atomic<Driver*>& instance() {
  static std::atomic<Driver*> pointer{nullptr};
  return pointer;
}

/// Set in children of fork(), for which the driver is not initialised, now and later.
std::atomic<bool>& forked() {
  static std::atomic<bool> flag{false};
  return flag;
}

Status known(Device device) {
  ISTHMUS_PASS(enter_query());
  return driver()->machine.has(device) ? Status::success : Status::invalid_device;
}

int attribute_of(const Machine& machine, DeviceAttribute attribute, Device device) {
  switch (attribute) {
    case DeviceAttribute::multiprocessor_count:
      return 4;
    case DeviceAttribute::compute_capability_major:
      return 9;
    case DeviceAttribute::pci_bus_id:
      return static_cast<int>(0x10 + machine.physical(device));
    case DeviceAttribute::host_numa_id:
    case DeviceAttribute::pageable_memory_access_uses_host_page_tables:
    case DeviceAttribute::compute_capability_minor:
    case DeviceAttribute::pci_device_id:
    case DeviceAttribute::pci_domain_id:
    case DeviceAttribute::integrated:
    case DeviceAttribute::pageable_memory_access:
    case DeviceAttribute::rdma:
    case DeviceAttribute::dma_buf:
      return 0;
    default:
      return 1;
  }
}

}  // namespace

Driver::Driver(Machine the_machine)
    : machine(std::move(the_machine)),
      primary(static_cast<std::size_t>(machine.visible())),
      used(static_cast<std::size_t>(machine.visible())),
      default_pools(static_cast<std::size_t>(machine.visible())),
      current_pools(static_cast<std::size_t>(machine.visible())) {}

Driver* driver() {
  return forked().load(std::memory_order_relaxed) ? nullptr : instance().load(std::memory_order_acquire);
}

Status enter_query() {
  call_counter().fetch_add(1, std::memory_order_relaxed);
  if (!driver()) return Status::not_initialized;
  perhaps_move_pages();
  return Status::success;
}

Status enter() {
  ISTHMUS_PASS(enter_query());
  const Settings& faults = settings();
  if (faults.sticky == 0 || call_counter().load() < faults.sticky_after) return Status::success;
  return static_cast<Status>(faults.sticky.load());
}

extern "C" {

Status cuInit(unsigned flags) {
  call_counter().fetch_add(1, std::memory_order_relaxed);
  if (flags != 0) return Status::invalid_value;
  static std::mutex once;
  const std::scoped_lock lock(once);
  if (forked()) return Status::not_initialized;
  if (instance().load()) return Status::success;
  settings().read_environment();
  Machine machine = Machine::from_environment();
  if (machine.visible() == 0) return Status::no_device;
  watch_for_leaks();
  watch_touches();
  ::pthread_atfork(nullptr, nullptr, [] { forked() = true; });
  auto* made = new Driver(std::move(machine));
  instance().store(made, std::memory_order_release);
  make_default_pools(*made);
  load_twins();
  return Status::success;
}

Status cuDriverGetVersion(int* version) {
  call_counter().fetch_add(1, std::memory_order_relaxed);
  *version = 13000;
  return Status::success;
}

Status cuDeviceGetCount(int* count) {
  ISTHMUS_PASS(enter_query());
  *count = driver()->machine.visible();
  return Status::success;
}

Status cuDeviceGet(Device* device, int ordinal) {
  ISTHMUS_PASS(known(ordinal));
  *device = ordinal;
  return Status::success;
}

Status cuDeviceGetName(char* name, int length, Device device) {
  ISTHMUS_PASS(known(device));
  std::snprintf(name, static_cast<std::size_t>(length), "Emulated GPU");
  return Status::success;
}

Status cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  ISTHMUS_PASS(known(device));
  *uuid = Machine::uuid(driver()->machine.physical(device));
  return Status::success;
}

Status cuDeviceGetPCIBusId(char* text, int length, Device device) {
  ISTHMUS_PASS(known(device));
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0",
                0x10 + driver()->machine.physical(device));
  return Status::success;
}

Status cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device device) {
  ISTHMUS_PASS(known(device));
  *value = attribute_of(driver()->machine, attribute, device);
  return Status::success;
}

Status cuDeviceTotalMem_v2(std::size_t* bytes, Device device) {
  ISTHMUS_PASS(known(device));
  *bytes = settings().memory;
  return Status::success;
}

Status cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  ISTHMUS_PASS(known(device));
  ISTHMUS_PASS(known(peer));
  const Driver& cuda = *driver();
  *can = device != peer && can_reach(cuda, device, cuda.machine.physical(peer)) ? 1 : 0;
  return Status::success;
}

Status cuDeviceGetP2PAttribute(int* value, PeerAttribute attribute, Device from, Device to) {
  ISTHMUS_PASS(known(from));
  ISTHMUS_PASS(known(to));
  if (from == to) return Status::invalid_device;
  const Driver& cuda = *driver();
  const bool reaches = can_reach(cuda, from, cuda.machine.physical(to));
  const Link link = cuda.machine.link(cuda.machine.physical(from), cuda.machine.physical(to));
  switch (attribute) {
    case PeerAttribute::performance_rank:
      *value = link == Link::nvlink ? 0 : 1;
      break;
    case PeerAttribute::native_atomic_supported:
      *value = reaches && link == Link::nvlink ? 1 : 0;
      break;
    default:
      *value = reaches ? 1 : 0;
  }
  return Status::success;
}
}

}  // namespace isthmus::emulated
