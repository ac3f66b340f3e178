// Stream capture and the graphs that it makes.
#include "streams/capture.hpp"

#include "contexts.hpp"

namespace isthmus::emulated {
namespace {

CaptureMode& thread_mode() {
  thread_local CaptureMode mode = CaptureMode::global;
  return mode;
}

bool forbids(const Capture& capture) {
  if (thread_mode() == CaptureMode::relaxed || capture.mode == CaptureMode::relaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return capture.mode == CaptureMode::global && thread_mode() == CaptureMode::global;
}

}  // namespace

Status unsafe_in_capture() {
  const std::scoped_lock lock(driver()->mutex);
  bool any = false;
  for (const auto& [handle, stream] : driver()->streams.all())
    if (stream->capture && forbids(*stream->capture)) any = stream->capture->invalid = true;
  return any ? Status::stream_capture_unsupported : Status::success;
}

extern "C" {

Status cuStreamIsCapturing(Stream handle, CaptureStatus* status) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  const auto stream = stream_of(handle);
  if (!stream) return handle ? Status::invalid_handle : Status::invalid_context;
  *status = CaptureStatus::none;
  if (stream->capture)
    *status = stream->capture->invalid ? CaptureStatus::invalidated : CaptureStatus::active;
  if (!stream->is_legacy) return Status::success;
  // The legacy stream cannot be asked while a blocking stream captures.
  for (const auto& [other_handle, other] : driver()->streams.all())
    if (other->is_blocking && other->context == stream->context && other->capture)
      return Status::stream_capture_implicit;
  return Status::success;
}

Status cuStreamBeginCapture_v2(Stream handle, CaptureMode mode) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  const auto stream = stream_of(handle);
  if (!stream) return handle ? Status::invalid_handle : Status::invalid_context;
  if (stream->is_legacy) return Status::stream_capture_unsupported;
  if (stream->capture) return Status::illegal_state;
  stream->capture = std::make_shared<Capture>(
      Capture{.origin = stream.get(), .mode = mode, .thread = std::this_thread::get_id()});
  return Status::success;
}

Status cuStreamEndCapture(Stream handle, Graph* graph) {
  ISTHMUS_PASS(enter());
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  const auto stream = stream_of(handle);
  if (!stream) return Status::invalid_handle;
  const auto capture = stream->capture;
  if (!capture) return Status::illegal_state;
  if (capture->origin != stream.get()) return Status::stream_capture_unmatched;
  if (capture->mode != CaptureMode::relaxed && capture->thread != std::this_thread::get_id())
    return Status::stream_capture_wrong_thread;
  for (const auto& [other_handle, other] : cuda.streams.all())
    if (other->capture == capture) other->capture = nullptr;
  *graph = nullptr;
  if (capture->invalid) return Status::stream_capture_invalidated;
  *graph = cuda.graphs.add(std::make_shared<GraphObject>(GraphObject{std::move(capture->work)}));
  ledger().opened(Held::graph);
  return Status::success;
}

Status cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  ISTHMUS_PASS(enter());
  std::swap(*mode, thread_mode());
  return Status::success;
}

Status cuGraphInstantiateWithFlags(GraphExec* executable, Graph handle, unsigned long long) {
  ISTHMUS_PASS(enter());
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  const auto graph = cuda.graphs.find(handle);
  if (!graph) return Status::invalid_value;
  *executable = cuda.executables.add(std::make_shared<GraphExecObject>(GraphExecObject{graph->work}));
  ledger().opened(Held::graph);
  return Status::success;
}

Status cuGraphLaunch(GraphExec handle, Stream stream) {
  ISTHMUS_PASS(enter());
  std::shared_ptr<GraphExecObject> executable;
  {
    const std::scoped_lock lock(driver()->mutex);
    executable = driver()->executables.find(handle);
  }
  if (!executable) return Status::invalid_value;
  const auto work = [executable] {
    for (const Work& each : executable->work) {
      if (const unsigned more = settings().graph_us.load(); more > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(more));
      begin_piece();
      each();
    }
  };
  return submit(stream, work, nullptr, executable->work.size());
}

Status cuGraphExecDestroy(GraphExec executable) {
  ISTHMUS_PASS(enter_query());
  const std::scoped_lock lock(driver()->mutex);
  if (!driver()->executables.remove(executable)) return Status::invalid_value;
  ledger().closed(Held::graph);
  return Status::success;
}

Status cuGraphDestroy(Graph graph) {
  ISTHMUS_PASS(enter_query());
  const std::scoped_lock lock(driver()->mutex);
  if (!driver()->graphs.remove(graph)) return Status::invalid_value;
  ledger().closed(Held::graph);
  return Status::success;
}
}

}  // namespace isthmus::emulated
