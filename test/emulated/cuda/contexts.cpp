#include "contexts.hpp"

#include <vector>

#include "memory/memory.hpp"
#include "streams/events.hpp"
#include "streams/stream.hpp"

namespace isthmus::emulated {
namespace {

std::vector<Context>& stack() {
  thread_local std::vector<Context> contexts;
  return contexts;
}

std::shared_ptr<ContextObject> make_context(Driver& cuda, Device device) {
  auto context = std::make_shared<ContextObject>();
  context->device = device;
  context->id = ++cuda.last_context;
  context->legacy = std::make_shared<StreamObject>(context.get(), true);
  cuda.contexts.add(context);
  return context;
}

/// Their handles are good for nothing from then on.
void end_streams_and_events(Driver& cuda, Context context) {
  std::vector<Stream> streams;
  for (const auto& [handle, stream] : cuda.streams.all())
    if (stream->context == context) streams.push_back(handle);
  for (const Stream handle : streams) {
    cuda.streams.end(handle)->close();
    ledger().closed(Held::stream);
  }
  std::vector<Event> events;
  for (const auto& [handle, event] : cuda.events.all())
    if (event->context == context) events.push_back(handle);
  for (const Event handle : events) {
    const auto event = cuda.events.end(handle);
    ledger().closed(event->is_imported ? Held::ipc_event : Held::event);
  }
}

}  // namespace

Context current_context() {
  return stack().empty() ? nullptr : stack().back();
}

Status enter_with_context(Context& context) {
  ISTHMUS_PASS(enter());
  context = current_context();
  if (!context) return Status::invalid_context;
  const std::scoped_lock lock(driver()->mutex);
  if (!driver()->contexts.find(context)) return Status::context_is_destroyed;
  return context->alive ? Status::success : Status::context_is_destroyed;
}

bool can_reach(const Driver& cuda, Device device, unsigned other_physical) {
  if (cuda.machine.physical(device) == other_physical) return true;
  return !settings().refuses(Refusal::peer) &&
         cuda.machine.link(cuda.machine.physical(device), other_physical) != Link::none;
}

void empty_context(Driver& cuda, Context context) {
  std::vector<std::shared_ptr<Allocation>> gone;
  for (const auto& [base, allocation] : cuda.addresses.all())
    if (allocation->context == context) gone.push_back(allocation);
  for (const auto& allocation : gone)
    forget(cuda, *allocation);
}

extern "C" {

Status cuDevicePrimaryCtxRetain(Context* context, Device device) {
  ISTHMUS_PASS(enter());
  Driver& cuda = *driver();
  if (!cuda.machine.has(device)) return Status::invalid_device;
  const std::scoped_lock lock(cuda.mutex);
  auto& primary = cuda.primary[static_cast<std::size_t>(device)];
  if (!primary) {
    primary = make_context(cuda, device);
    primary->is_primary = true;
  }
  if (!primary->alive) primary->id = ++cuda.last_context;
  primary->alive = true;
  ++primary->retained;
  ledger().opened(Held::primary_context);
  *context = primary.get();
  return Status::success;
}

Status cuDevicePrimaryCtxRelease_v2(Device device) {
  ISTHMUS_PASS(enter_query());
  Driver& cuda = *driver();
  if (!cuda.machine.has(device)) return Status::invalid_device;
  const std::scoped_lock lock(cuda.mutex);
  const auto& primary = cuda.primary[static_cast<std::size_t>(device)];
  if (!primary || primary->retained == 0) return Status::invalid_context;
  ledger().closed(Held::primary_context);
  if (--primary->retained == 0) {
    empty_context(cuda, primary.get());
    primary->alive = false;
  }
  return Status::success;
}

Status cuDevicePrimaryCtxReset_v2(Device device) {
  ISTHMUS_PASS(enter_query());
  Driver& cuda = *driver();
  if (!cuda.machine.has(device)) return Status::invalid_device;
  wait_for_all_streams(cuda);
  const std::scoped_lock lock(cuda.mutex);
  if (const auto& primary = cuda.primary[static_cast<std::size_t>(device)]) {
    empty_context(cuda, primary.get());
    end_streams_and_events(cuda, primary.get());
    primary->alive = false;
  }
  return Status::success;
}

Status cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  ISTHMUS_PASS(enter_query());
  Driver& cuda = *driver();
  if (!cuda.machine.has(device)) return Status::invalid_device;
  const std::scoped_lock lock(cuda.mutex);
  const auto& primary = cuda.primary[static_cast<std::size_t>(device)];
  *flags = 0;
  *active = primary && primary->retained > 0 ? 1 : 0;
  return Status::success;
}

Status cuCtxCreate_v2(Context* context, unsigned, Device device) {
  ISTHMUS_PASS(enter());
  Driver& cuda = *driver();
  if (!cuda.machine.has(device)) return Status::invalid_device;
  const std::scoped_lock lock(cuda.mutex);
  *context = make_context(cuda, device).get();
  ledger().opened(Held::context);
  stack().push_back(*context);
  return Status::success;
}

Status cuCtxDestroy_v2(Context context) {
  ISTHMUS_PASS(enter_query());
  Driver& cuda = *driver();
  wait_for_all_streams(cuda);
  const std::scoped_lock lock(cuda.mutex);
  const auto object = cuda.contexts.find(context);
  if (!object || object->is_primary) return Status::invalid_context;
  empty_context(cuda, context);
  object->alive = false;
  ledger().closed(Held::context);
  if (current_context() == context) stack().pop_back();
  return Status::success;  // the object stays, so that its handle is known to be dead
}

Status cuCtxGetCurrent(Context* context) {
  ISTHMUS_PASS(enter_query());
  *context = current_context();
  return Status::success;
}

Status cuCtxSetCurrent(Context context) {
  ISTHMUS_PASS(enter_query());
  if (!stack().empty()) stack().pop_back();
  if (context) stack().push_back(context);
  return Status::success;
}

Status cuCtxPushCurrent_v2(Context context) {
  ISTHMUS_PASS(enter_query());
  if (!context) return Status::invalid_context;
  stack().push_back(context);
  return Status::success;
}

Status cuCtxPopCurrent_v2(Context* context) {
  ISTHMUS_PASS(enter_query());
  if (stack().empty()) return Status::invalid_context;
  if (context) *context = stack().back();
  stack().pop_back();
  return Status::success;
}

Status cuCtxGetId(Context handle, unsigned long long* id) {
  ISTHMUS_PASS(enter_query());
  const std::scoped_lock lock(driver()->mutex);
  const auto context = driver()->contexts.find(handle ? handle : current_context());
  if (!context || !context->alive) return handle ? Status::context_is_destroyed : Status::invalid_context;
  *id = context->id;
  return Status::success;
}

Status cuCtxGetDevice(Device* device) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  *device = context->device;
  return Status::success;
}

Status cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return Status::success;
}

Status cuCtxEnablePeerAccess(Context peer, unsigned flags) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  if (flags != 0) return Status::invalid_value;
  if (peer == context || !cuda.contexts.find(peer)) return Status::invalid_context;
  if (!can_reach(cuda, context->device, cuda.machine.physical(peer->device)))
    return Status::peer_access_unsupported;
  return context->peers.insert(peer).second ? Status::success : Status::peer_access_already_enabled;
}

Status cuCtxDisablePeerAccess(Context peer) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  const std::scoped_lock lock(driver()->mutex);
  return context->peers.erase(peer) > 0 ? Status::success : Status::peer_access_not_enabled;
}
}

}  // namespace isthmus::emulated
