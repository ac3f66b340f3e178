#pragma once

#include <atomic>
#include <mutex>

namespace isthmus {

/// The one lock of an engine. Off until MPI_THREAD_MULTIPLE, a progress thread or a stream
/// (MPIX_Stream_create) is asked for: then it costs a predictable branch. Recursive, because user callbacks
/// (attributes, reductions, error handlers) run with it held and may call MPI again.
class EngineLock {
 public:
  /// To be called before a second thread can see the engine.
  void enable() noexcept { enabled_ = attended_ = true; }
  [[nodiscard]] bool enabled() const noexcept { return enabled_; }

  /// Somebody wants to hear of calls and of requests that end: what is on the way of a short message asks
  /// for this one flag, whatever the reason.
  void attend() noexcept { attended_ = true; }
  /// Whether the lock is enabled, or somebody wants to hear.
  [[nodiscard]] bool attended() const noexcept { return attended_; }

  void lock() {
    if (!enabled_) [[likely]]
      return;
    if (!mutex_.try_lock()) {
      wanted_.fetch_add(1, std::memory_order_relaxed);
      mutex_.lock();
      wanted_.fetch_sub(1, std::memory_order_relaxed);
    }
    ++depth_;
  }
  void unlock() {
    if (!enabled_) [[likely]]
      return;
    if (--depth_ == 0 && watcher_) watcher_->leaving();
    mutex_.unlock();
  }

  // For a thread that gives way to all others.
  /// False where another thread has the lock. Only if `enabled`.
  [[nodiscard]] bool try_lock() {
    if (!mutex_.try_lock()) return false;
    ++depth_;
    return true;
  }
  /// Whether threads wait for the lock.
  [[nodiscard]] bool is_wanted() const noexcept { return wanted_.load(std::memory_order_relaxed) != 0; }
  /// With the lock held: how many threads have let go of it in order to wait, and will look again.
  [[nodiscard]] int waiting() const noexcept { return waiting_; }

  /// Hears of threads that let go of the lock.
  class Watcher {
   public:
    /// Called with the lock still held.
    virtual void leaving() noexcept = 0;

   protected:
    ~Watcher() = default;
  };
  /// With the lock held. Null: none.
  void watch(Watcher* watcher) noexcept { watcher_ = watcher; }

  /// Lets go of the lock entirely, however deep, for the life of this object: what a waiting thread does
  /// between two looks.
  class Released {
   public:
    explicit Released(EngineLock& lock) : lock_(lock), depth_(lock.depth_) {
      if (depth_ > 0) ++lock_.waiting_;
      for (int i = 0; i < depth_; ++i)
        lock_.unlock();
    }
    ~Released() {
      for (int i = 0; i < depth_; ++i)
        lock_.lock();
      if (depth_ > 0) --lock_.waiting_;
    }
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;

   private:
    EngineLock& lock_;
    int depth_;
  };

 private:
  std::recursive_mutex mutex_;
  Watcher* watcher_ = nullptr;
  int depth_ = 0;
  int waiting_ = 0;
  std::atomic<int> wanted_{0};
  bool enabled_ = false;
  bool attended_ = false;
};

}  // namespace isthmus
