#pragma once

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "gpu/driver/cuda_api.hpp"

namespace isthmus::cuda {

/// Lets the calling thread call, for the life of this, what a stream capture of the program forbids: what the
/// library does is no part of that capture.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Functions& functions) noexcept;
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture();

 private:
  const Functions& functions_;
  CaptureMode mode_ = CaptureMode::relaxed;
  bool relaxed_ = false;
};

/// The same, and makes a context the calling thread's current one.
class ContextScope {
 public:
  ContextScope(const Functions& functions, Context context) noexcept;
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

 private:
  const Functions& functions_;
  const RelaxedCapture relaxed_;
  bool pushed_ = false;
};

/// Names the life of a device's primary context in which something was made: it ends when the program resets
/// the device (cudaDeviceReset). Never 0; the driver's number, which no later life has.
using ContextLife = unsigned long long;

/// The devices' primary contexts, which the CUDA runtime uses too: each retained when first asked for, and
/// released at the end. One thread at a time.
///
/// A reset ends all that was made in a context. From then on its streams and events must not be named, since
/// the driver faults, nor its addresses freed, since they may be others'. So whoever keeps what was made
/// there notes the life that it belongs to, and lets go of it without the driver once that is over. A reset
/// by another thread during a call of the driver cannot be guarded against.
class PrimaryContexts {
 public:
  explicit PrimaryContexts(const Functions& functions) noexcept : functions_(functions) {}
  PrimaryContexts(const PrimaryContexts&) = delete;
  PrimaryContexts& operator=(const PrimaryContexts&) = delete;
  ~PrimaryContexts();

  /// Of a device by its ordinal.
  Result<Context> of(Device device);
  /// Looks whether the program has reset the device since `of`. Where it has begun to use it again, a new
  /// life begins here, too; until then it is an error. Needed before anything is made or used there.
  [[nodiscard]] Result<> check_alive(Device device);
  /// The life that is known to be the current one; 0 before `of`. Asks nobody.
  [[nodiscard]] ContextLife life(Device device) const noexcept;
  /// Whether what was made in that life is still there.
  [[nodiscard]] bool is_alive(Device device, ContextLife life) const noexcept;
  /// How often a new life has begun, of any device.
  [[nodiscard]] unsigned renewals() const noexcept { return renewals_; }
  [[nodiscard]] const Functions& functions() const noexcept { return functions_; }

 private:
  const Functions& functions_;
  struct Retained {
    Device device;
    Context context;
    ContextLife life;
  };
  [[nodiscard]] const Retained* find(Device device) const noexcept;
  /// What the driver says now; 0: it has been reset, and nobody has used it since.
  [[nodiscard]] ContextLife ask(const Retained& retained) const noexcept;

  std::vector<Retained> retained_;
  unsigned renewals_ = 0;
};

}  // namespace isthmus::cuda
