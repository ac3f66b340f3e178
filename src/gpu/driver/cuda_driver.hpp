#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "gpu/driver/cuda_api.hpp"
#include "gpu/driver/load_watch.hpp"

namespace isthmus {

/// The CUDA driver as this process has it. It is never loaded on our account except by `open`, and no
/// function of it is called before the program has loaded it, so a host-only program pays the check in
/// `find`: 1 to 25 ns (`LoadWatch`). Threads may share it. One for the life of a process: what it has found
/// stays loaded.
class CudaDriver {
 public:
  CudaDriver() = default;

  /// The driver's functions once the program has loaded and initialised it, null before. Finding them is for
  /// good: two loads from then on.
  [[nodiscard]] const cuda::Functions* find() noexcept {
    // First, because it is what programs without GPUs pay with each message: `ready_` is null then.
    if (is_absent_.load(std::memory_order_relaxed) && !watch_.changed()) [[likely]]
      return nullptr;
    const cuda::Functions* functions = ready_.load(std::memory_order_acquire);
    return functions ? functions : look();
  }

  /// Loads and initialises the driver by ourselves, for tools. Errors say what is missing and what that
  /// means.
  Result<const cuda::Functions*> open(const char* file = default_file);

  /// Whether the driver can be loaded and lacks nothing; loads it, if it is there, and initialises nothing.
  [[nodiscard]] bool is_there(const char* file = default_file);

  /// Why a driver that is loaded cannot be used (it lacks functions); empty where there is nothing to
  /// complain of.
  [[nodiscard]] std::string complaint() const;

  static constexpr const char* default_file = "libcuda.so.1";

 private:
  [[gnu::cold]] const cuda::Functions* look() noexcept;
  bool take(void* object);

  std::atomic<const cuda::Functions*> ready_{nullptr};
  std::atomic<bool> is_absent_{false};  ///< has been looked for, and must be again when something is loaded
  LoadWatch watch_;
  mutable std::mutex mutex_;
  bool is_loaded_ = false;  ///< and complete
  cuda::Functions functions_;
  std::string missing_;
};

}  // namespace isthmus
