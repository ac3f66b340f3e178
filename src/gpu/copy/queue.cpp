#include "gpu/copy/queue.hpp"

#include <string>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {

Result<std::unique_ptr<GpuQueue>> GpuQueue::make(const cuda::Functions& functions) {
  cuda::Stream stream = nullptr;
  const cuda::Status status = functions.stream_create(&stream, cuda::stream_non_blocking);
  if (status != cuda::Status::success) return cuda::fail(functions, status, "make a stream");
  return std::unique_ptr<GpuQueue>(new GpuQueue(functions, stream));
}

GpuQueue::~GpuQueue() {
  if (!stream_) return;
  drain();
  for (const auto event : events_)
    functions_.event_destroy(event);
  functions_.stream_destroy(stream_);
}

Result<> GpuQueue::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return {};
  const cuda::Status status = functions_.copy_async(reinterpret_cast<cuda::Address>(to),
                                                    reinterpret_cast<cuda::Address>(from), bytes, stream_);
  if (status == cuda::Status::success) return {};
  return cuda::fail(functions_, status, "copy " + std::to_string(bytes) + " bytes between GPUs");
}

Result<std::size_t> GpuQueue::mark() {
  if (marks_ == events_.size()) {
    cuda::Event event = nullptr;
    const cuda::Status status = functions_.event_create(&event, cuda::event_disable_timing);
    if (status != cuda::Status::success) return cuda::fail(functions_, status, "make an event");
    events_.push_back(event);
  }
  const cuda::Status status = functions_.event_record(events_[marks_], stream_);
  if (status != cuda::Status::success) return cuda::fail(functions_, status, "record an event");
  return marks_++;
}

Result<bool> GpuQueue::has_passed(std::size_t mark) const {
  const cuda::Status status = functions_.event_query(events_[mark]);
  if (status == cuda::Status::success) return true;
  if (status == cuda::Status::not_ready) return false;
  return cuda::fail(functions_, status, "finish a copy");
}

void GpuQueue::drain() noexcept {
  functions_.stream_synchronize(stream_);
}

}  // namespace isthmus
