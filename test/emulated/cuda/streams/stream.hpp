#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "driver.hpp"

namespace isthmus::emulated {

using Work = std::function<void()>;

/// A sequence of work that is recorded instead of done.
struct Capture {
  StreamObject* origin = nullptr;
  CaptureMode mode = CaptureMode::global;
  std::thread::id thread;
  bool invalid = false;
  std::vector<Work> work;
};

}  // namespace isthmus::emulated

namespace isthmus::cuda {

/// A queue with a thread that does one piece of work after another, each a while after it could have begun.
struct StreamObject : std::enable_shared_from_this<StreamObject> {
  StreamObject(ContextObject* the_context, bool legacy) : context(the_context), is_legacy(legacy) {}

  /// Returns the number of that work, from 1. It counts as so many pieces while it is not done.
  std::uint64_t push(emulated::Work work, std::size_t pieces);
  /// Whether another piece can be queued; and returns when it can.
  [[nodiscard]] bool has_room() const;
  void wait_for_room() const;
  [[nodiscard]] std::uint64_t last() const;
  [[nodiscard]] bool reached(std::uint64_t number) const;
  void wait(std::uint64_t number) const;
  /// No work comes after this.
  void close();

  ContextObject* const context;
  const bool is_legacy;
  bool is_blocking = true;                     ///< waits for the legacy stream, and that for it
  std::shared_ptr<emulated::Capture> capture;  ///< guarded by the driver's mutex

 private:
  void run();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  struct Queued {
    emulated::Work work;
    std::size_t pieces;
  };
  std::deque<Queued> queue_;
  std::size_t pieces_ = 0;  ///< queued, or being done
  std::uint64_t pushed_ = 0, done_ = 0;
  bool has_thread_ = false, closing_ = false;
};

}  // namespace isthmus::cuda

namespace isthmus::emulated {

/// What a handle means to the calling thread; null if nothing. With the driver's mutex held.
std::shared_ptr<StreamObject> stream_of(Stream handle);

/// On a stream's thread: another piece of its work, or of a graph, begins.
void begin_piece();
/// That piece computes or copies: if the one before did not, it waits for `Settings::start_us`.
void begin_computing();

/// Where and when work will be done.
struct Position {
  std::shared_ptr<StreamObject> stream;  ///< null if it was captured
  std::uint64_t number = 0;
  void wait() const {
    if (stream) stream->wait(number);
  }
};

/// Appends work to a stream, or to what it captures. Waits while the stream's queue is full, which is after
/// 512 pieces, as on H200 (510 with driver 580). Meanwhile `Alone` is not to be had.
Status submit(Stream handle, Work work, Position* position = nullptr, std::size_t pieces = 1);

/// What makes or destroys streams, events, and memory of cuMemAlloc or pinned, has no launch beside it that
/// waits for room. Seen on H200 (driver 580, November 2026): while one waited, cuStreamCreate,
/// cuStreamDestroy, cuEventCreate, cuEventDestroy, cuMemAlloc, cuMemFree, cuMemHostAlloc and
/// cuMemHostRegister waited with it; copies, kernels that were loaded, events' records and queries,
/// cuIpcOpenMemHandle, cuMemCreate, cuMemImportFromShareableHandle, cuMemMap and cuMemSetAccess did not.
class Alone {
 public:
  Alone();

 private:
  std::unique_lock<std::shared_mutex> held_;
};

/// Where the streams of a context are, or of all. With the driver's mutex held.
std::vector<Position> last_of_all_streams(Driver& cuda, Context context = nullptr);
/// Returns when all that was submitted before is done. Without the driver's mutex.
void wait_for_all_streams(Driver& cuda, Context context = nullptr);

}  // namespace isthmus::emulated
