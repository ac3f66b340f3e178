#include "streams/events.hpp"

#include <time.h>

#include "base/futex.hpp"
#include "contexts.hpp"
#include "streams/capture.hpp"
#include "streams/stream.hpp"

namespace isthmus::cuda {

bool EventObject::reached(std::uint32_t number) const {
  return static_cast<std::int32_t>(state->completed.load() - number) >= 0;
}

void EventObject::wait(std::uint32_t number) const {
  while (!reached(number))
    futex_wait(state->completed, state->completed.load(), 1000);
}

}  // namespace isthmus::cuda

namespace isthmus::emulated {
namespace {

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void complete(const EventObject& event, std::uint32_t number) {
  if (event.reached(number)) return;
  event.state->nanoseconds = now();
  event.state->completed = number;
  futex_wake(event.state->completed);
}

Status event_of(Event handle, std::shared_ptr<EventObject>& event) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  event = driver()->events.find(handle);
  return event ? Status::success : Status::invalid_handle;
}

/// Makes a stream that waits for an event of a capture part of that capture.
void join(const std::shared_ptr<StreamObject>& stream, const std::shared_ptr<Capture>& capture) {
  if (!stream->capture) stream->capture = capture;
}

}  // namespace

extern "C" {

Status cuEventCreate(Event* handle, unsigned flags) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  const bool shared = (flags & event_interprocess) != 0;
  if (!handle || flags > 7 || (shared && (flags & event_disable_timing) == 0)) return Status::invalid_value;
  auto event = std::make_shared<EventObject>();
  event->device = context->device;
  event->context = context;
  event->flags = flags;
  if (shared) {
    event->backing = Backing::create(BackingKind::event, driver()->machine.physical(context->device), 0);
    if (!event->backing) return Status::out_of_memory;
    event->state = &event->backing->header();
  } else {
    event->own = std::make_unique<BackingHeader>();
    event->state = event->own.get();
  }
  const Alone alone;
  const std::scoped_lock lock(driver()->mutex);
  *handle = driver()->events.add(std::move(event));
  ledger().opened(Held::event);
  return Status::success;
}

Status cuEventDestroy_v2(Event handle) {
  ISTHMUS_PASS(enter_query());
  const Alone alone;
  const std::scoped_lock lock(driver()->mutex);
  const auto event = driver()->events.remove(handle);
  if (!event) return Status::invalid_handle;
  if (event->backing && !event->is_imported) {
    withdraw(*event->backing);
    event->state->token = 0;
  }
  ledger().closed(event->is_imported ? Held::ipc_event : Held::event);
  return Status::success;
}

Status cuEventRecord(Event handle, Stream stream) {
  std::shared_ptr<EventObject> event;
  ISTHMUS_PASS(event_of(handle, event));
  {
    const std::scoped_lock lock(driver()->mutex);
    const auto where = stream_of(stream);
    if (!where) return stream ? Status::invalid_handle : Status::invalid_context;
    event->capture = where->capture;
    if (event->capture) return event->capture->invalid ? Status::stream_capture_invalidated : Status::success;
  }
  const std::uint32_t number = event->state->recorded.fetch_add(1) + 1;
  return submit(stream, [event, number] { complete(*event, number); });
}

Status cuEventQuery(Event handle) {
  std::shared_ptr<EventObject> event;
  ISTHMUS_PASS(event_of(handle, event));
  ISTHMUS_PASS(unsafe_in_capture());
  if (event->capture) return Status::stream_capture_unsupported;
  return event->reached(event->state->recorded) ? Status::success : Status::not_ready;
}

Status cuEventSynchronize(Event handle) {
  std::shared_ptr<EventObject> event;
  ISTHMUS_PASS(event_of(handle, event));
  ISTHMUS_PASS(unsafe_in_capture());
  if (event->capture) return Status::stream_capture_unsupported;
  event->wait(event->state->recorded);
  return enter();
}

Status cuStreamWaitEvent(Stream stream, Event handle, unsigned) {
  std::shared_ptr<EventObject> event;
  ISTHMUS_PASS(event_of(handle, event));
  if (event->capture) {
    const std::scoped_lock lock(driver()->mutex);
    const auto where = stream_of(stream);
    if (!where) return Status::invalid_handle;
    join(where, event->capture);
    return Status::success;  // a replay is in the order of the capture
  }
  const std::uint32_t number = event->state->recorded;
  if (event->reached(number)) return Status::success;
  return submit(stream, [event, number] { event->wait(number); });
}

Status cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  std::shared_ptr<EventObject> first;
  std::shared_ptr<EventObject> second;
  ISTHMUS_PASS(event_of(from, first));
  ISTHMUS_PASS(event_of(to, second));
  if (((first->flags | second->flags) & event_disable_timing) != 0 || first->state->recorded == 0 ||
      second->state->recorded == 0)
    return Status::invalid_handle;
  if (!first->reached(first->state->recorded) || !second->reached(second->state->recorded))
    return Status::not_ready;
  *milliseconds = static_cast<float>(second->state->nanoseconds - first->state->nanoseconds) * 1e-6F;
  return Status::success;
}
}

}  // namespace isthmus::emulated
