// Legacy handles of memory and of events.
#include <unistd.h>

#include <cstring>

#include "memory/memory.hpp"
#include "streams/capture.hpp"
#include "streams/events.hpp"

namespace isthmus::emulated {
namespace {

/// A process is refused what it has exported itself, which it tells by the pid in the handle; so it refuses
/// what another process of the same pid in another namespace has exported.
Status check(const Ticket& ticket, BackingKind kind) {
  if (ticket.mark != BackingHeader::expected_mark || ticket.kind != kind) return Status::invalid_value;
  return ticket.pid == ::getpid() ? Status::invalid_context : Status::success;
}

}  // namespace

extern "C" {

Status cuIpcGetMemHandle(IpcMemory* handle, Address address) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  const std::scoped_lock lock(driver()->mutex);
  const auto memory = driver()->addresses.find(address);
  if (!handle || !memory || memory->origin != Origin::device) return Status::invalid_value;
  if (settings().refuses(Refusal::ipc)) return Status::not_supported;
  *handle = {};
  const Ticket ticket = announce(*memory->backing);
  std::memcpy(handle->bytes.data(), &ticket, sizeof ticket);
  return Status::success;
}

Status cuIpcOpenMemHandle_v2(Address* address, IpcMemory handle, unsigned flags) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  ISTHMUS_PASS(unsafe_in_capture());
  if (!address || flags != ipc_lazy_peer_access) return Status::invalid_value;
  Ticket ticket;
  std::memcpy(static_cast<void*>(&ticket), handle.bytes.data(), sizeof ticket);
  ISTHMUS_PASS(check(ticket, BackingKind::device));
  if (settings().refuses(Refusal::ipc)) return Status::map_failed;
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  if (!can_reach(cuda, context->device, ticket.device)) return Status::map_failed;
  for (const auto& [base, memory] : cuda.addresses.all())
    if (memory->origin == Origin::ipc && memory->context == context &&
        memory->backing->header().token == ticket.token) {
      ++memory->opens;
      ledger().opened(Held::ipc_memory);
      *address = base;
      return Status::success;
    }
  auto backing = find(ticket);
  if (!backing) return Status::invalid_value;
  const Address base = cuda.addresses.reserve(backing->bytes(), 512);
  if (base == 0) return Status::out_of_memory;
  add_allocation(cuda, {.origin = Origin::ipc,
                        .base = base,
                        .bytes = backing->bytes(),
                        .view = backing->view(),
                        .backing = backing,
                        .device = cuda.machine.ordinal(ticket.device).value_or(context->device),
                        .context = context,
                        .opens = 1});
  *address = base;
  return Status::success;
}

Status cuIpcCloseMemHandle(Address address) {
  ISTHMUS_PASS(enter());
  ISTHMUS_PASS(unsafe_in_capture());
  Driver& cuda = *driver();
  wait_for_all_streams(cuda);
  const std::scoped_lock lock(cuda.mutex);
  const auto memory = cuda.addresses.find(address);
  if (!memory || memory->origin != Origin::ipc || memory->base != address) return Status::invalid_value;
  if (--memory->opens > 0)
    ledger().closed(Held::ipc_memory);
  else
    forget(cuda, *memory);
  return Status::success;
}

Status cuIpcGetEventHandle(IpcEvent* handle, Event event) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  const auto object = driver()->events.find(event);
  if (!handle || !object) return Status::invalid_handle;
  if (!object->backing || object->is_imported) return Status::invalid_value;
  if (settings().refuses(Refusal::event)) return Status::not_supported;
  *handle = {};
  const Ticket ticket = announce(*object->backing);
  std::memcpy(handle->bytes.data(), &ticket, sizeof ticket);
  return Status::success;
}

Status cuIpcOpenEventHandle(Event* event, IpcEvent handle) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  Ticket ticket;
  std::memcpy(static_cast<void*>(&ticket), handle.bytes.data(), sizeof ticket);
  ISTHMUS_PASS(check(ticket, BackingKind::event));
  if (settings().refuses(Refusal::event)) return Status::map_failed;
  auto backing = find(ticket);
  if (!event || !backing) return Status::invalid_value;
  auto object = std::make_shared<EventObject>();
  object->device = context->device;
  object->flags = event_interprocess | event_disable_timing;
  object->state = &backing->header();
  object->backing = std::move(backing);
  object->is_imported = true;
  const std::scoped_lock lock(driver()->mutex);
  *event = driver()->events.add(std::move(object));
  ledger().opened(Held::ipc_event);
  return Status::success;
}
}

}  // namespace isthmus::emulated
