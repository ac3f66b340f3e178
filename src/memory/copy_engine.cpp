#include "memory/copy_engine.hpp"

#include <algorithm>
#include <string>

#include "memory/cuda_error.hpp"

namespace isthmus {

using cuda::Status;

PendingCopy::~PendingCopy() {
  if (!engine_) return;
  [[maybe_unused]] const auto waited = wait();
  if (engine_) let_go();
}

void PendingCopy::let_go() const noexcept {
  engine_->events_.push_back(event_);
  --engine_->under_way_[stream_];
  engine_ = nullptr;
}

Result<bool> PendingCopy::is_done() const {
  if (!engine_) return true;
  const cuda::Functions& functions = engine_->contexts_.functions();
  const cuda::RelaxedCapture relaxed(functions);  // an event brings its context along
  const Status status = functions.event_query(event_);
  if (status == Status::not_ready) return false;
  if (status != Status::success) return cuda::fail(functions, status, "finish a copy");
  let_go();
  return true;
}

Result<> PendingCopy::wait() const {
  if (!engine_) return {};
  const cuda::Functions& functions = engine_->contexts_.functions();
  const cuda::RelaxedCapture relaxed(functions);  // an event brings its context along
  const Status status = functions.event_synchronize(event_);
  if (status != Status::success) return cuda::fail(functions, status, "finish a copy");
  let_go();
  return {};
}

CopyEngine::~CopyEngine() {
  if (!context_) return;
  const cuda::Functions& functions = contexts_.functions();
  const cuda::ContextScope scope(functions, context_);
  for (const auto event : events_)
    functions.event_destroy(event);
  for (const auto stream : streams_)
    functions.stream_destroy(stream);
}

Result<> CopyEngine::open() {
  auto context = contexts_.of(device_);
  if (!context) return std::unexpected(std::move(context).error());
  context_ = *context;
  const cuda::Functions& functions = contexts_.functions();
  const cuda::ContextScope scope(functions, context_);
  while (streams_.size() < wanted_streams_) {
    cuda::Stream stream = nullptr;
    const Status status = functions.stream_create(&stream, cuda::stream_non_blocking);
    if (status != Status::success) return cuda::fail(functions, status, "make a stream");
    streams_.push_back(stream);
    under_way_.push_back(0);
  }
  return {};
}

std::size_t CopyEngine::quietest() const noexcept {
  return static_cast<std::size_t>(std::ranges::min_element(under_way_) - under_way_.begin());
}

Result<cuda::Event> CopyEngine::take_event() {
  if (!events_.empty()) {
    const auto event = events_.back();
    events_.pop_back();
    return event;
  }
  cuda::Event event = nullptr;
  const cuda::Functions& functions = contexts_.functions();
  const Status status = functions.event_create(&event, cuda::event_disable_timing);
  if (status != Status::success) return cuda::fail(functions, status, "make an event");
  return event;
}

Result<PendingCopy> CopyEngine::start(std::span<const CopyPiece> pieces) {
  if (streams_.size() < wanted_streams_) ISTHMUS_TRY(open());
  const cuda::Functions& functions = contexts_.functions();
  const cuda::ContextScope scope(functions, context_);
  auto event = take_event();
  if (!event) return std::unexpected(std::move(event).error());
  const std::size_t number = quietest();
  const auto stream = streams_[number];
  Status status = Status::success;
  for (const CopyPiece& piece : pieces) {
    status = functions.copy_async(reinterpret_cast<cuda::Address>(piece.to),
                                  reinterpret_cast<cuda::Address>(piece.from), piece.bytes, stream);
    if (status != Status::success) break;
  }
  if (status == Status::success) status = functions.event_record(*event, stream);
  if (status == Status::success) {
    ++under_way_[number];
    return PendingCopy(*this, *event, number);
  }
  // Nobody could tell later when the pieces that were started are done.
  functions.stream_synchronize(stream);
  events_.push_back(*event);
  std::size_t bytes = 0;
  for (const CopyPiece& piece : pieces)
    bytes += piece.bytes;
  return cuda::fail(functions, status,
                    "copy " + std::to_string(bytes) + " bytes by GPU " + std::to_string(device_));
}

Result<PendingCopy> CopyEngine::start(const std::function<Result<>(cuda::Stream)>& work) {
  if (streams_.size() < wanted_streams_) ISTHMUS_TRY(open());
  const cuda::Functions& functions = contexts_.functions();
  const cuda::ContextScope scope(functions, context_);
  auto event = take_event();
  if (!event) return std::unexpected(std::move(event).error());
  const std::size_t number = quietest();
  const auto stream = streams_[number];
  Result<> done = work(stream);
  const Status status = done ? functions.event_record(*event, stream) : Status::success;
  if (done && status == Status::success) {
    ++under_way_[number];
    return PendingCopy(*this, *event, number);
  }
  functions.stream_synchronize(stream);
  events_.push_back(*event);
  if (!done) return std::unexpected(std::move(done).error());
  return cuda::fail(functions, status, "record an event on GPU " + std::to_string(device_));
}

}  // namespace isthmus
