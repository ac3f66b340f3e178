#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "stream/operation.hpp"

namespace isthmus::stream {

/// The thread that does for one stream what a program would do for itself if it waited for the stream: it
/// starts each operation when the stream has got there, in the stream's order, and lets the stream go on at
/// its end. A thread for each stream, because a collective waits for its members where it is started, and
/// another stream's operations must not wait for it. Sleeps in the kernel while nothing is enqueued; else it
/// looks at words in pinned memory, which nobody can wake it for: it polls, yields, and naps.
///
/// An operation that fails lets the stream go on, too. The error is kept for the program to be told.
class Proxy {
 public:
  /// `engine` must outlive it, with its lock enabled.
  static Result<std::unique_ptr<Proxy>> start(Engine& engine);
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  /// With the engine's lock held, which is let go of meanwhile. Forgets what has not been started, and waits
  /// for what has.
  ~Proxy();

  // Without the engine's lock.

  /// Before the stream is told to set its word, in the order in which it will.
  void add(const Ref<Enqueued>& what);
  /// The last that was added will not come.
  void withdraw(const Enqueued& what) noexcept;

  // With the engine's lock held.

  /// How many are enqueued, or under way; recorded ones only while they are that.
  [[nodiscard]] std::size_t outstanding() const;
  /// The first error since the last question: of operations on that communicator; on any, where it is null.
  [[nodiscard]] std::optional<Error> take_failure(const Communicator* comm);

 private:
  struct Failure {
    ContextId context;
    Error error;
  };

  explicit Proxy(Engine& engine);
  void run() noexcept;
  /// The next that the stream has got to, which is under way from then on; null if there is none.
  Enqueued* next();
  std::vector<Ref<Enqueued>>::iterator find_recorded();
  Enqueued* find_complete();
  // Whether there was anything to do.
  bool begin_next() noexcept;
  bool end_complete() noexcept;
  void end(Enqueued& what, const Result<>& outcome) noexcept;
  void keep_failure(const Enqueued& what, const Error& error) noexcept;
  /// False where there is nothing to look at: then it has slept.
  bool has_work();

  Engine& engine_;
  mutable std::mutex mutex_;  ///< guards what follows; taken after the engine's lock
  std::deque<Ref<Enqueued>> queue_;
  std::vector<Ref<Enqueued>> recorded_;
  std::vector<Ref<Enqueued>> running_;  ///< with room for all
  std::vector<Failure> failures_;       ///< with some room: what comes beyond is not kept

  std::atomic<std::uint32_t> parked_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace isthmus::stream
