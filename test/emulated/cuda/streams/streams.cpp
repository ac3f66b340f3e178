// The functions of streams.
#include "contexts.hpp"
#include "streams/capture.hpp"

namespace isthmus::emulated {
namespace {

/// The stream for a question that its capture forbids.
Status idle_stream(Stream handle, std::shared_ptr<StreamObject>& stream) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  stream = stream_of(handle);
  if (!stream) return handle ? Status::invalid_handle : Status::invalid_context;
  if (!stream->capture) return Status::success;
  stream->capture->invalid = true;
  return Status::stream_capture_unsupported;
}

}  // namespace

extern "C" {

Status cuStreamCreateWithPriority(Stream* stream, unsigned flags, int) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  if (!stream || flags > stream_non_blocking) return Status::invalid_value;
  auto made = std::make_shared<StreamObject>(context, false);
  made->is_blocking = flags == stream_default;
  const Alone alone;
  const std::scoped_lock lock(driver()->mutex);
  *stream = driver()->streams.add(std::move(made));
  ledger().opened(Held::stream);
  return Status::success;
}

Status cuStreamCreate(Stream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

Status cuStreamDestroy_v2(Stream handle) {
  ISTHMUS_PASS(enter_query());
  const Alone alone;
  const std::scoped_lock lock(driver()->mutex);
  const auto stream = driver()->streams.remove(handle);
  if (!stream) return Status::invalid_handle;
  stream->close();  // what is queued is still done
  ledger().closed(Held::stream);
  return Status::success;
}

Status cuStreamQuery(Stream handle) {
  std::shared_ptr<StreamObject> stream;
  ISTHMUS_PASS(idle_stream(handle, stream));
  return stream->reached(stream->last()) ? Status::success : Status::not_ready;
}

Status cuStreamSynchronize(Stream handle) {
  std::shared_ptr<StreamObject> stream;
  ISTHMUS_PASS(idle_stream(handle, stream));
  stream->wait(stream->last());
  return enter();  // work may have failed
}

Status cuCtxSynchronize() {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  ISTHMUS_PASS(unsafe_in_capture());
  wait_for_all_streams(*driver(), context);
  return enter();
}

Status cuStreamGetCtx(Stream handle, Context* context) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  const auto stream = stream_of(handle);
  if (!stream) return handle ? Status::invalid_handle : Status::invalid_context;
  *context = stream->context;
  return Status::success;
}

Status cuLaunchHostFunc(Stream stream, HostFunction function, void* argument) {
  ISTHMUS_PASS(enter());
  if (!function) return Status::invalid_value;
  return submit(stream, [function, argument] { function(argument); });
}

Status cuStreamAddCallback(Stream stream, void (*function)(Stream, Status, void*), void* argument, unsigned) {
  ISTHMUS_PASS(enter());
  if (!function) return Status::invalid_value;
  return submit(stream, [=] { function(stream, Status::success, argument); });
}
}

}  // namespace isthmus::emulated
