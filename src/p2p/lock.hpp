#pragma once

#include <mutex>

namespace isthmus {

/// The one lock of an engine. Off until MPI_THREAD_MULTIPLE is asked for: then it costs a predictable branch.
/// Recursive, because user callbacks (attributes, reductions, error handlers) run with it held and may call
/// MPI again.
class EngineLock {
 public:
  /// To be called before a second thread can see the engine.
  void enable() noexcept { enabled_ = true; }
  [[nodiscard]] bool enabled() const noexcept { return enabled_; }

  void lock() {
    if (!enabled_) [[likely]]
      return;
    mutex_.lock();
    ++depth_;
  }
  void unlock() {
    if (!enabled_) [[likely]]
      return;
    --depth_;
    mutex_.unlock();
  }

  /// Lets go of the lock entirely, however deep, for the life of this object: what a waiting thread does
  /// between two looks.
  class Released {
   public:
    explicit Released(EngineLock& lock) : lock_(lock), depth_(lock.depth_) {
      for (int i = 0; i < depth_; ++i)
        lock_.unlock();
    }
    ~Released() {
      for (int i = 0; i < depth_; ++i)
        lock_.lock();
    }
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;

   private:
    EngineLock& lock_;
    int depth_;
  };

 private:
  std::recursive_mutex mutex_;
  int depth_ = 0;
  bool enabled_ = false;
};

}  // namespace isthmus
