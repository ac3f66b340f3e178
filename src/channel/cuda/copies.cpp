#include "channel/cuda/copies.hpp"

#include <utility>

#include "memory/cuda_error.hpp"

namespace isthmus {
namespace {

using cuda::Status;

}  // namespace

CudaCopies::~CudaCopies() {
  for (const Lane& lane : lanes_) {
    const cuda::ContextScope scope(functions(), lane.context);
    for (const cuda::Event event : lane.idle)
      functions().event_destroy(event);
    functions().stream_destroy(lane.stream);
  }
}

Result<std::size_t> CudaCopies::lane_of(const Buffer& near) {
  cuda::Context context = near.context;
  if (!context) {
    auto primary = contexts_.of(near.device);
    if (!primary) return std::unexpected(std::move(primary).error());
    context = *primary;
  }
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    if (lanes_[i].context == context) return i;
  Lane lane{.context = context, .stream = nullptr, .idle = {}};
  const cuda::ContextScope scope(functions(), context);
  if (const Status status = functions().stream_create(&lane.stream, cuda::stream_non_blocking);
      status != Status::success)
    return cuda::fail(functions(), status, "create a stream");
  lanes_.push_back(std::move(lane));
  return lanes_.size() - 1;
}

Result<cuda::Event> CudaCopies::take_event(Lane& lane) {
  if (!lane.idle.empty()) {
    const cuda::Event event = lane.idle.back();
    lane.idle.pop_back();
    return event;
  }
  cuda::Event event = nullptr;
  if (const Status status = functions().event_create(&event, cuda::event_disable_timing);
      status != Status::success)
    return cuda::fail(functions(), status, "create an event");
  return event;
}

Result<CudaCopies::Copy> CudaCopies::start(const Buffer& near, const std::vector<Piece>& pieces) {
  auto index = lane_of(near);
  if (!index) return std::unexpected(std::move(index).error());
  Lane& lane = lanes_[*index];
  const cuda::ContextScope scope(functions(), lane.context);
  auto event = take_event(lane);
  if (!event) return std::unexpected(std::move(event).error());
  Copy copy;
  copy.event_ = *event;
  copy.lane_ = *index;
  Status status = Status::success;
  for (const Piece& piece : pieces) {
    status = functions().copy_async(reinterpret_cast<cuda::Address>(piece.to),
                                    reinterpret_cast<cuda::Address>(piece.from), piece.bytes, lane.stream);
    if (status != Status::success) break;
  }
  const Status recorded = functions().event_record(*event, lane.stream);
  if (status == Status::success) status = recorded;
  if (status == Status::success) return copy;
  // The pieces before the one that failed may be under way in memory that the caller is about to give up.
  functions().stream_synchronize(lane.stream);
  lane.idle.push_back(*event);
  return cuda::fail(functions(), status, "copy");
}

Result<bool> CudaCopies::finished(const Copy& copy) {
  Lane& lane = lanes_[copy.lane_];
  const Status status = functions().event_query(copy.event_);
  if (status == Status::not_ready) return false;
  lane.idle.push_back(copy.event_);
  if (status == Status::success) return true;
  return cuda::fail(functions(), status, "copy");
}

Result<> CudaCopies::run(const Buffer& near, const std::vector<Piece>& pieces) {
  auto copy = start(near, pieces);
  if (!copy) return std::unexpected(std::move(copy).error());
  for (;;) {
    auto finished = this->finished(*copy);
    if (!finished) return std::unexpected(std::move(finished).error());
    if (*finished) return {};
  }
}

}  // namespace isthmus
