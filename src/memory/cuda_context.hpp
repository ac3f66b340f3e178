#pragma once

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "memory/buffer.hpp"
#include "memory/cuda_api.hpp"

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

/// The devices' primary contexts, which the CUDA runtime uses too: each retained when first asked for, and
/// released at the end. One thread at a time.
class PrimaryContexts {
 public:
  explicit PrimaryContexts(const Functions& functions) noexcept : functions_(functions) {}
  PrimaryContexts(const PrimaryContexts&) = delete;
  PrimaryContexts& operator=(const PrimaryContexts&) = delete;
  ~PrimaryContexts();

  /// Of a device by its ordinal.
  Result<Context> of(Device device);
  /// Whether what has been made in the primary context of a device since `of` is still there. A program that
  /// resets its device (cudaDeviceReset) ends it all, and the driver faults where a stream or an event of
  /// that time is named.
  [[nodiscard]] bool is_alive(Device device) const noexcept;
  /// The error where that is not so.
  [[nodiscard]] Result<> check_alive(Device device) const;
  /// Whether kernels in the primary context of its device reach a buffer: not if it belongs to a context that
  /// the program has made besides (cuCtxCreate). Copy engines do.
  bool reaches(const Buffer& buffer);
  [[nodiscard]] const Functions& functions() const noexcept { return functions_; }

 private:
  const Functions& functions_;
  struct Retained {
    Device device;
    Context context;
    unsigned long long id;  ///< another one after a reset
  };
  std::vector<Retained> retained_;
};

}  // namespace isthmus::cuda
