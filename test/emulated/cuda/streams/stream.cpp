#include "streams/stream.hpp"

#include <atomic>
#include <chrono>
#include <random>

#include "contexts.hpp"

namespace isthmus::cuda {

namespace {

constexpr std::size_t most_pieces = 512;

/// How long a stream's work waits. Shuffled, each piece for another time, and now and then for a long one, so
/// that what does not depend on each other is done in another order with each seed.
class Delay {
 public:
  Delay() {
    static std::atomic<std::uint64_t> streams{0};
    random_.seed(emulated::settings().shuffle.load() * 1000 + streams.fetch_add(1));
  }
  std::chrono::microseconds next() {
    const unsigned usual = emulated::settings().delay_us.load();
    if (emulated::settings().shuffle.load() == 0) return std::chrono::microseconds(usual);
    const unsigned most = random_() % 16 == 0 ? 100 * usual : 4 * usual;
    return std::chrono::microseconds(std::uniform_int_distribution<unsigned>(0, most)(random_));
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

bool StreamObject::has_room() const {
  const std::scoped_lock lock(mutex_);
  return pieces_ < most_pieces;
}

void StreamObject::wait_for_room() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return pieces_ < most_pieces; });
}

std::uint64_t StreamObject::push(emulated::Work work, std::size_t pieces) {
  const std::scoped_lock lock(mutex_);
  queue_.push_back({std::move(work), pieces});
  pieces_ += pieces;
  if (!has_thread_) {
    has_thread_ = true;
    std::thread([self = shared_from_this()] { self->run(); }).detach();
  }
  changed_.notify_all();
  return ++pushed_;
}

std::uint64_t StreamObject::last() const {
  const std::scoped_lock lock(mutex_);
  return pushed_;
}

bool StreamObject::reached(std::uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  return done_ >= number;
}

void StreamObject::wait(std::uint64_t number) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
}

void StreamObject::close() {
  const std::scoped_lock lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

void StreamObject::run() {
  Delay delay;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !queue_.empty() || closing_; });
    if (queue_.empty()) return;
    const Queued next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::this_thread::sleep_for(delay.next());
    emulated::begin_piece();
    next.work();
    lock.lock();
    ++done_;
    pieces_ -= next.pieces;
    changed_.notify_all();
  }
}

}  // namespace isthmus::cuda

namespace isthmus::emulated {
namespace {

constexpr std::uintptr_t legacy_handle = 1;
constexpr std::uintptr_t per_thread_handle = 2;

/// CU_STREAM_PER_THREAD: one for each context that the thread uses.
class ThreadStreams {
 public:
  ~ThreadStreams() {
    for (const auto& [context, stream] : streams_)
      stream->close();
  }
  std::shared_ptr<StreamObject> of(ContextObject* context) {
    auto& stream = streams_[context];
    if (!stream) stream = std::make_shared<StreamObject>(context, false);
    return stream;
  }

 private:
  std::map<ContextObject*, std::shared_ptr<StreamObject>> streams_;
};

using Positions = std::vector<Position>;

/// Shared by launches that wait for room. Lives for ever.
std::shared_mutex& launches() {
  static auto* const mutex = new std::shared_mutex;
  return *mutex;
}

/// Several threads may go on together, and the queue be longer by as many.
void wait_for_room(Driver& cuda, Stream handle) {
  std::shared_ptr<StreamObject> stream;
  {
    const std::scoped_lock lock(cuda.mutex);
    stream = stream_of(handle);
    if (!stream || stream->capture || stream->has_room()) return;
  }
  const std::shared_lock waiting(launches());
  stream->wait_for_room();
}

/// What the next work of `stream` has to wait for because of the legacy stream's rules.
Status find_dependencies(const Driver& cuda, const StreamObject& stream, Positions& positions) {
  if (!stream.is_legacy) {
    if (stream.is_blocking && stream.context->legacy->last() > 0)
      positions.push_back({stream.context->legacy, stream.context->legacy->last()});
    return Status::success;
  }
  for (const auto& [handle, other] : cuda.streams.all()) {
    if (!other->is_blocking || other->context != stream.context) continue;
    if (other->capture) {
      other->capture->invalid = true;
      return Status::stream_capture_implicit;
    }
    positions.push_back({other, other->last()});
  }
  return Status::success;
}

}  // namespace

std::shared_ptr<StreamObject> stream_of(Stream handle) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value > per_thread_handle) return driver()->streams.find(handle);
  const Context context = current_context();
  if (!context) return nullptr;
  if (value <= legacy_handle) return context->legacy;
  thread_local ThreadStreams own;
  return own.of(context);
}

namespace {

/// Whether a piece of this thread's stream computes or copies, and whether the one before did.
struct Row {
  bool computes = false, is_behind_another = false;
};
Row& row() {
  thread_local Row own;
  return own;
}

}  // namespace

void begin_piece() {
  row() = {.computes = false, .is_behind_another = row().computes};
}

void begin_computing() {
  if (const unsigned more = settings().start_us.load(); more > 0 && !row().is_behind_another)
    std::this_thread::sleep_for(std::chrono::microseconds(more));
  row().computes = true;
}

Alone::Alone() : held_(launches()) {}

Status submit(Stream handle, Work work, Position* position, std::size_t pieces) {
  Driver& cuda = *driver();
  wait_for_room(cuda, handle);
  const std::scoped_lock lock(cuda.mutex);
  const auto stream = stream_of(handle);
  if (!stream) return handle ? Status::invalid_handle : Status::invalid_context;
  if (stream->capture) {
    if (stream->capture->invalid) return Status::stream_capture_invalidated;
    stream->capture->work.push_back(std::move(work));
    return Status::success;
  }
  Positions positions;
  ISTHMUS_PASS(find_dependencies(cuda, *stream, positions));
  const std::uint64_t number = stream->push(
      [positions = std::move(positions), work = std::move(work)] {
        for (const Position& earlier : positions)
          earlier.wait();
        work();
      },
      pieces);
  if (position) *position = {stream, number};
  return Status::success;
}

std::vector<Position> last_of_all_streams(Driver& cuda, Context context) {
  std::vector<Position> all;
  for (const auto& [handle, stream] : cuda.streams.all())
    if (!context || stream->context == context) all.push_back({stream, stream->last()});
  for (const auto& [handle, object] : cuda.contexts.all())
    if (!context || handle == context) all.push_back({object->legacy, object->legacy->last()});
  return all;
}

void wait_for_all_streams(Driver& cuda, Context context) {
  std::vector<Position> all;
  {
    const std::scoped_lock lock(cuda.mutex);
    all = last_of_all_streams(cuda, context);
  }
  for (const Position& each : all)
    each.wait();
}

}  // namespace isthmus::emulated
