#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "gpu/copy/engine.hpp"
#include "gpu/memory/classify.hpp"
#include "gpu/memory/device_pool.hpp"
#include "kernels/gpu_kernels.hpp"
#include "p2p/message/message.hpp"

namespace isthmus {

/// Copies from and to GPU memory where one side or both have gaps: by kernels, which from two blocks on are
/// quicker than a copy for each (test/device/kernel_cost_test.cpp: 2 blocks of 16 KiB 9.7 against 12.5 us, 64
/// blocks 9.7 against 231 us). Where a kernel does not reach a side, because it is pageable memory or managed
/// memory of which the GPU is not known to have the pages, the message goes packed through memory of the
/// device. Where there are no kernels, a copy for each block it is, and a warning says why.
class GpuLayouts {
 public:
  GpuLayouts(cuda::PrimaryContexts& contexts, Classifier& classifier, bool may_warn)
      : contexts_(contexts),
        classifier_(classifier),
        may_warn_(may_warn),
        kernels_(contexts),
        pool_(contexts, {}) {}
  GpuLayouts(const GpuLayouts&) = delete;
  GpuLayouts& operator=(const GpuLayouts&) = delete;
  ~GpuLayouts() = default;

  /// Brings the first `bytes` bytes of a payload into another; `engine` is that of the GPU that one side lies
  /// on.
  Result<PendingCopy> start(CopyEngine& engine, const Payload& from, const Payload& to, std::uint64_t bytes);
  /// The message without gaps, in memory of that device that peers can open; waits for it. Fails where there
  /// are no kernels or no memory.
  Result<DeviceBuffer> pack(CopyEngine& engine, const Payload& payload);
  /// Whether kernels of that device go through a payload and reach all of it.
  bool can_move(CopyEngine& engine, const Payload& payload);
  /// Brings the first `bytes` bytes of what a peer has into such a payload.
  Result<PendingCopy> read(CopyEngine& engine, const ShapedSide& from, const Payload& to,
                           std::uint64_t bytes);

  /// `inout = in OP inout`, both in the engine's memory; waits. False, with a warning, where there are no
  /// kernels.
  Result<bool> reduce(CopyEngine& engine, const Op& op, const Datatype& type, const void* in, void* inout,
                      std::int64_t count);

  [[nodiscard]] GpuKernels& kernels() noexcept { return kernels_; }
  [[nodiscard]] DevicePool& pool() noexcept { return pool_; }

 private:
  /// What reaches a payload besides.
  enum class Reach : std::uint8_t {
    kernels,    ///< of that device
    opened,     ///< a peer's, mapped for some device
    engines,    ///< of all devices
    processor,  ///< and engines
  };
  Result<Reach> reach_of(const Payload& payload, cuda::Device device);
  void warn_once(std::string_view why);
  /// False, with one warning of what that means, where there are no kernels.
  bool has_kernels(cuda::Device device);
  bool can_use_kernels(cuda::Device device, const Payload& from, const Payload& to);
  Result<PendingCopy> by_kernel(CopyEngine& engine, const Payload& from, const Payload& to,
                                std::uint64_t bytes);
  /// A part of a message that goes by way of memory of the device: bytes, from which on.
  struct Passing {
    cuda::Stream stream;
    std::byte* passage;
    std::uint64_t at;
    std::uint64_t bytes;
  };
  Result<PendingCopy> by_passage(CopyEngine& engine, std::uint64_t bytes,
                                 const std::function<Result<>(const Passing&)>& pass);
  Result<PendingCopy> out_of_gpu(CopyEngine& engine, const Payload& from, const Payload& to,
                                 std::uint64_t bytes);
  Result<PendingCopy> into_gpu(CopyEngine& engine, const Payload& from, const Payload& to,
                               std::uint64_t bytes);
  Result<const DeviceBuffer*> passage_of(GpuStream where);
  Result<> copy_run(cuda::Stream stream, std::byte* to, const std::byte* from, std::size_t bytes);

  cuda::PrimaryContexts& contexts_;
  Classifier& classifier_;
  const bool may_warn_;
  bool has_warned_ = false;
  GpuKernels kernels_;
  DevicePool pool_;
  /// Where messages are packed on their way from and to host memory, for each stream: what is put on one
  /// follows on another.
  std::unordered_map<cuda::Stream, DeviceBuffer> passages_;
};

}  // namespace isthmus
