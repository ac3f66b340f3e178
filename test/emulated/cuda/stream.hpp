#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
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

  /// Returns the number of that work, from 1.
  std::uint64_t push(emulated::Work work);
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
  std::deque<emulated::Work> queue_;
  std::uint64_t pushed_ = 0, done_ = 0;
  bool has_thread_ = false, closing_ = false;
};

}  // namespace isthmus::cuda

namespace isthmus::emulated {

/// What a handle means to the calling thread; null if nothing. With the driver's mutex held.
std::shared_ptr<StreamObject> stream_of(Stream handle);

/// Where and when work will be done.
struct Position {
  std::shared_ptr<StreamObject> stream;  ///< null if it was captured
  std::uint64_t number = 0;
  void wait() const {
    if (stream) stream->wait(number);
  }
};

/// Appends work to a stream, or to what it captures.
Status submit(Stream handle, Work work, Position* position = nullptr);

/// Where the streams of a context are, or of all. With the driver's mutex held.
std::vector<Position> last_of_all_streams(Driver& cuda, Context context = nullptr);
/// Returns when all that was submitted before is done. Without the driver's mutex.
void wait_for_all_streams(Driver& cuda, Context context = nullptr);

}  // namespace isthmus::emulated
