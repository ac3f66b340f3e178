#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/error.hpp"

namespace isthmus::vrank {

/// A thread that does nothing but keep thread-local storage: that of a rank, which runs on the thread of its
/// process with this thread pointer. So errno, the exceptions in flight, a library's thread-local variables
/// and what the C library keeps of a thread are each rank's own, and compiled code may keep the address of a
/// thread-local variable over a switch.
class RankThread {
 public:
  /// `end`: of its stack. The thread pointer follows from it.
  static Result<std::unique_ptr<RankThread>> start(std::uint64_t end);
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;
  /// Ends the thread, as which the destructors of thread-local variables run that have not yet.
  ~RankThread();

  /// Where the guard lies that the compiler's checks of stack frames compare with, from the thread pointer. A
  /// rank that comes from another process brings its own.
  static constexpr std::uintptr_t guard_at = 0x28;
  [[nodiscard]] std::uintptr_t pointer() const noexcept { return pointer_; }

  /// Of the thread that calls.
  [[nodiscard]] static std::uintptr_t own_pointer() noexcept;
  /// What this thread-local storage keeps of the process's locale may be another process's.
  static void renew_locale() noexcept;
  /// What follows runs with that thread-local storage.
  static void set_pointer(std::uintptr_t pointer) noexcept;

 private:
  RankThread() = default;
  void keep();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::uintptr_t pointer_ = 0;
  std::uint64_t guard_ = 0;  ///< by which its own functions find out whether their frames are whole
  std::span<std::byte> stack_;
  std::optional<pthread_t> thread_;
};

}  // namespace isthmus::vrank
