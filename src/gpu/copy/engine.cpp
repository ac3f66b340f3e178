#include "gpu/copy/engine.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {
namespace {

/// Copies that share an event, at most.
constexpr std::uint64_t most_marked = 16;
/// Bytes under way from which on another stream is taken: what a GPU copies in 20 us. Work of unknown length
/// counts as that much.
constexpr std::size_t enough = std::size_t{8} << 20U;

}  // namespace

PendingCopy::~PendingCopy() {
  if (engine_) engine_->settle(engine_->lanes_[lane_], number_);
}

Result<bool> PendingCopy::is_done() const {
  if (!engine_) return true;
  auto done = engine_->is_done(engine_->lanes_[lane_], number_);
  if (done && *done) engine_ = nullptr;
  return done;
}

Result<> PendingCopy::wait() const {
  if (!engine_) return {};
  ISTHMUS_TRY(engine_->wait(engine_->lanes_[lane_], number_));
  engine_ = nullptr;
  return {};
}

PendingCopy PendingCopy::another() const noexcept {
  return engine_ ? PendingCopy(*engine_, lane_, number_) : PendingCopy();
}

const void* PendingCopy::stream() const noexcept {
  return engine_ ? engine_->lanes_[lane_].stream : nullptr;
}

CopyEngine::~CopyEngine() {
  if (!contexts_.is_alive(device_, life_)) return;
  const cuda::Functions& functions = contexts_.functions();
  const cuda::ContextScope scope(functions, context_);
  for (const Lane& lane : lanes_) {
    for (const Mark& mark : lane.marks)
      functions.event_destroy(mark.event);
    if (lane.stream) functions.stream_destroy(lane.stream);
  }
  for (const auto event : events_)
    functions.event_destroy(event);
}

Result<> CopyEngine::open() {
  auto context = contexts_.of(device_);
  if (!context) return std::unexpected(std::move(context).error());
  lanes_.resize(wanted_streams_);
  context_ = *context;
  if (life_ != contexts_.life(device_)) abandon();
  life_ = contexts_.life(device_);
  const cuda::Functions& functions = contexts_.functions();
  const cuda::ContextScope scope(functions, context_);
  for (Lane& lane : lanes_) {
    if (lane.stream) continue;
    cuda::Stream stream = nullptr;
    const cuda::Status status = functions.stream_create(&stream, cuda::stream_non_blocking);
    if (status != cuda::Status::success) return cuda::fail(functions, status, "make a stream");
    lane.stream = stream;
  }
  return {};
}

bool CopyEngine::is_open() const noexcept {
  return life_ != 0 && life_ == contexts_.life(device_) && lanes_.back().stream;
}

void CopyEngine::abandon() noexcept {
  for (Lane& lane : lanes_) {
    if (lane.finished < lane.started) {
      if (lane.last_lost == 0) lane.first_lost = lane.finished + 1;
      lane.last_lost = lane.started;
    }
    lane.stream = nullptr;
    lane.finished = lane.marked = lane.started;
    lane.unmarked_bytes = lane.marked_bytes = 0;
    lane.marks.clear();
  }
  events_.clear();
  events_made_ = 0;
  life_ = 0;
}

Result<> CopyEngine::check_not_lost(const Lane& lane, std::uint64_t number) {
  if (lane.finished < number && !contexts_.is_alive(device_, life_)) abandon();
  if (number < lane.first_lost || number > lane.last_lost) return {};
  return cuda::fail_after_reset(device_, during_copy);
}

std::size_t CopyEngine::quietest() const noexcept {
  const auto under_way = [](const Lane& lane) { return lane.marked_bytes + lane.unmarked_bytes; };
  auto found = std::ranges::find_if(lanes_, [&](const Lane& lane) { return under_way(lane) < enough; });
  if (found == lanes_.end()) found = std::ranges::min_element(lanes_, {}, under_way);
  return static_cast<std::size_t>(found - lanes_.begin());
}

std::size_t CopyEngine::under_way() const noexcept {
  std::uint64_t calls = 0;
  for (const Lane& lane : lanes_)
    calls += lane.started - lane.finished;
  return calls;
}

Result<cuda::Event> CopyEngine::take_event() {
  if (!events_.empty()) {
    const auto event = events_.back();
    events_.pop_back();
    return event;
  }
  return make_event();
}

Result<cuda::Event> CopyEngine::make_event() {
  events_.reserve(events_made_ + 1);  // so that each can be put back without memory
  cuda::Event event = nullptr;
  const cuda::Functions& functions = contexts_.functions();
  const cuda::Status status = functions.event_create(&event, cuda::event_disable_timing);
  if (status != cuda::Status::success) return cuda::fail(functions, status, "make an event");
  ++events_made_;
  return event;
}

Result<> CopyEngine::prepare(std::size_t copies) {
  if (!is_open()) ISTHMUS_TRY(open());
  const cuda::ContextScope scope(contexts_.functions(), context_);
  while (events_.size() < copies) {
    auto event = make_event();
    if (!event) return std::unexpected(std::move(event).error());
    events_.push_back(*event);
  }
  return {};
}

// --- starting

Result<PendingCopy> CopyEngine::start(std::span<const CopyPiece> pieces) {
  std::size_t bytes = 0;
  for (const CopyPiece& piece : pieces)
    bytes += piece.bytes;
  const cuda::Functions& functions = contexts_.functions();
  return put(bytes, [&](cuda::Stream stream) -> Result<> {
    for (const CopyPiece& piece : pieces) {
      const cuda::Status status =
          functions.copy_async(reinterpret_cast<cuda::Address>(piece.to),
                               reinterpret_cast<cuda::Address>(piece.from), piece.bytes, stream);
      if (status != cuda::Status::success)
        return cuda::fail(functions, status,
                          "copy " + std::to_string(bytes) + " bytes by GPU " + std::to_string(device_));
    }
    return {};
  });
}

Result<PendingCopy> CopyEngine::start_together(std::span<const CopyPiece> pieces) {
  std::size_t bytes = 0;
  for (const CopyPiece& piece : pieces)
    bytes += piece.bytes;
  return put(bytes, [&](cuda::Stream stream) { return copy_batch(contexts_.functions(), stream, pieces); });
}

Result<PendingCopy> CopyEngine::put(std::size_t bytes, const Work& work) {
  if (!is_open()) ISTHMUS_TRY(open());
  const cuda::Functions& functions = contexts_.functions();
  const cuda::ContextScope scope(functions, context_);
  const std::size_t index = quietest();
  Lane& lane = lanes_[index];
  try {
    // What is long is not what others wait for.
    Result<> done;
    if (lane.marked < lane.started && bytes > together_ - lane.unmarked_bytes) done = mark(lane);
    if (done) done = work(lane.stream);
    if (done) {
      ++lane.started;
      lane.unmarked_bytes += bytes == unknown ? enough : bytes;
      if (lane.unmarked_bytes >= together_ || lane.started - lane.marked >= most_marked) done = mark(lane);
    }
    if (done) return PendingCopy(*this, index, lane.started);
    // Nobody could tell later when what was started is done.
    functions.stream_synchronize(lane.stream);
    return std::unexpected(std::move(done).error());
  } catch (...) {
    functions.stream_synchronize(lane.stream);
    throw;
  }
}

Result<> CopyEngine::mark(Lane& lane) {
  auto event = take_event();
  if (!event) return std::unexpected(std::move(event).error());
  const cuda::Functions& functions = contexts_.functions();
  try {
    lane.marks.push_back({*event, lane.started, lane.unmarked_bytes});
  } catch (...) {
    events_.push_back(*event);
    throw;
  }
  if (const cuda::Status status = functions.event_record(*event, lane.stream);
      status != cuda::Status::success) {
    lane.marks.pop_back();
    events_.push_back(*event);
    return cuda::fail(functions, status, "record an event on GPU " + std::to_string(device_));
  }
  lane.marked = lane.started;
  lane.marked_bytes += lane.unmarked_bytes;
  lane.unmarked_bytes = 0;
  return {};
}

// --- ending

/// Sees to it that there is an event behind all that was started.
Result<> CopyEngine::mark_all(Lane& lane) {
  if (lane.marked == lane.started) return {};
  const cuda::ContextScope scope(contexts_.functions(), context_);
  return mark(lane);
}

/// The first event of a stream has passed.
void CopyEngine::pass(Lane& lane) {
  lane.finished = lane.marks.front().last;
  lane.marked_bytes -= lane.marks.front().bytes;
  events_.push_back(lane.marks.front().event);
  lane.marks.pop_front();
}

Result<bool> CopyEngine::is_done(Lane& lane, std::uint64_t number) {
  ISTHMUS_TRY(check_not_lost(lane, number));
  if (lane.finished >= number) return true;
  ISTHMUS_TRY(mark_all(lane));
  const cuda::Functions& functions = contexts_.functions();
  const cuda::RelaxedCapture relaxed(functions);  // an event brings its context along
  while (lane.finished < number) {
    const cuda::Status status = functions.event_query(lane.marks.front().event);
    if (status == cuda::Status::not_ready) return false;
    if (status != cuda::Status::success) return cuda::fail(functions, status, "finish a copy");
    pass(lane);
  }
  return true;
}

Result<> CopyEngine::wait(Lane& lane, std::uint64_t number) {
  ISTHMUS_TRY(check_not_lost(lane, number));
  if (lane.finished >= number) return {};
  ISTHMUS_TRY(mark_all(lane));
  const cuda::Functions& functions = contexts_.functions();
  const cuda::RelaxedCapture relaxed(functions);
  const auto last = std::ranges::find_if(lane.marks, [&](const Mark& mark) { return mark.last >= number; });
  if (const cuda::Status status = functions.event_synchronize(last->event); status != cuda::Status::success)
    return cuda::fail(functions, status, "finish a copy");
  while (lane.finished < number)
    pass(lane);
  return {};
}

void CopyEngine::settle(Lane& lane, std::uint64_t number) noexcept {
  try {
    [[maybe_unused]] const auto waited = wait(lane, number);
  } catch (...) {
    // No memory for an event behind it, or for an error. A reset of the device has ended it without that.
    if (contexts_.is_alive(device_, life_)) contexts_.functions().stream_synchronize(lane.stream);
  }
}

}  // namespace isthmus
