#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.hpp"
#include "datatype/datatype.hpp"
#include "datatype/op.hpp"
#include "gpu/copy/engine.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "kernels/image.hpp"

namespace isthmus {

namespace kernel {
struct CourierArguments;
struct OrderArguments;
}  // namespace kernel

/// Where a kernel runs. The stream belongs to the device's primary context.
struct GpuStream {
  cuda::Device device = cuda::no_device;
  cuda::Stream stream = nullptr;
};

/// One side of a copy: `count` elements of a committed type, from byte `position` of the packed message on.
struct LaidOut {
  std::byte* data = nullptr;       ///< the address that MPI calls `buf`
  const Datatype* type = nullptr;  ///< null: bytes without gaps from `data` on
  std::int64_t count = 0;
  std::uint64_t position = 0;
};

struct ShapedSide;

/// The kernels of this library, loaded when they are first needed. Every call puts work on a stream and
/// returns; whoever calls records an event behind it (`CopyEngine::start`). All memory named must be within
/// the device's reach: its own, peers' that are mapped, pinned host memory. Any alignment will do.
///
/// Where kernels are missing, because the library was built without nvcc or the GPU is older than all that
/// they were built for, every call fails with a sentence that says so, and `trouble()` tells it beforehand.
/// One thread at a time.
class GpuKernels {
 public:
  static constexpr std::size_t most_sources = 8;
  static constexpr std::size_t most_results = 8;
  static constexpr std::size_t most_pieces = 16;

  /// `image`: what nvcc made, which must live on; the library's own but for tests.
  explicit GpuKernels(cuda::PrimaryContexts& contexts, std::span<const std::byte> image = kernel_image());
  GpuKernels(const GpuKernels&) = delete;
  GpuKernels& operator=(const GpuKernels&) = delete;
  ~GpuKernels();

  /// Why no kernel can run on that device; empty where they can. Loads them.
  [[nodiscard]] const std::string& trouble(cuda::Device device);

  /// Loads all kernels on that device; what `trouble` says. A kernel is loaded when it is first wanted, and
  /// the driver lets that wait for all that the GPU has to do (CUDA C++ Programming Guide, "Lazy Loading"):
  /// for ever, where a stream waits for what the kernel is to do. Takes some milliseconds the first time.
  [[nodiscard]] const std::string& load_all(cuda::Device device);

  /// Whether there is a kernel for a predefined operation on that type. There is none for MPI_REPLACE,
  /// MPI_NO_OP, `long double` and 128-bit floating point, which GPUs do not compute with.
  [[nodiscard]] static bool can_reduce(const Op& op, const Datatype& type) noexcept;
  /// `(sources[0][i] OP sources[1][i]) OP sources[2][i] ...` for up to `most_sources` sources, in that order
  /// and rounded after each step: bit for bit what `Op::reduce` computes on the host, and the same on every
  /// GPU. One source is a copy. Each of up to `most_results` results gets it; it may be one of the sources,
  /// and overlaps no other.
  Result<> reduce(GpuStream where, const Op& op, const Datatype& type,
                  std::span<const std::byte* const> sources, std::span<std::byte* const> results,
                  std::int64_t count);
  Result<> reduce(GpuStream where, const Op& op, const Datatype& type,
                  std::span<const std::byte* const> sources, std::byte* result, std::int64_t count) {
    return reduce(where, op, type, sources, std::span(&result, 1), count);
  }
  /// A copy to each of up to `most_results` places, which overlap neither each other nor `from`. Takes half
  /// of the multiprocessors, because more are no faster: 64 MiB from a peer to three GPUs took 213 to 226 us
  /// by 16 to 96 blocks, 236 by 264 (four H200).
  Result<> deal(GpuStream where, const std::byte* from, std::span<std::byte* const> to, std::uint64_t bytes);

  /// Up to `most_pieces` copies by one kernel.
  Result<> copy(GpuStream where, std::span<const CopyPiece> pieces);

  /// Sends a courier out (`Courier`).
  Result<> send_out(GpuStream where, const kernel::CourierArguments& work);

  /// Carries out one member's part of a short collective, by one block.
  Result<> order(GpuStream where, const kernel::OrderArguments& work);
  /// How orders and meetings in pieces name the operation on that type (`combine`); nothing where there is no
  /// kernel.
  [[nodiscard]] static std::optional<std::uint16_t> combiner(const Op& op, const Datatype& type) noexcept;

  /// The kernel by which members combine what they have, or move it for null,
  /// (body/meet), for whoever puts it on a stream of the program's. That device has kernels.
  Result<cuda::Function> meeting(cuda::Device device, const Op* op, const Datatype* type);
  /// The kernel by which they move or combine long data (`MeetArguments::combine`, the `combiner`).
  Result<cuda::Function> meeting_in_pieces(cuda::Device device);

  /// Those that put and notify, and that wait for words, of one warp (body/put.hpp); the same.
  Result<cuda::Function> putting(cuda::Device device);
  Result<cuda::Function> waiting(cuda::Device device);

  /// Those that send and receive short messages (body/mail.hpp), of one block; the same.
  Result<cuda::Function> mail(cuda::Device device, bool sends);

  /// Whether `move` can go through that side: all layouts but those that nest loops deeply around irregular
  /// blocks, or have very many of these.
  [[nodiscard]] static bool can_move(const LaidOut& side) noexcept;
  /// Copies `bytes` packed bytes from one side to the other: pack, unpack, or both at once. Lists of
  /// irregular blocks are kept on the device for the next message of the same type.
  Result<> move(GpuStream where, const LaidOut& from, const LaidOut& to, std::uint64_t bytes);
  /// The same, out of a shape without an irregular part.
  Result<> move(GpuStream where, const ShapedSide& from, const LaidOut& to, std::uint64_t bytes);

 private:
  class Loaded;
  class RunLists;
  Loaded& load();
  Result<> move_shaped(GpuStream where, const ShapedSide& from, const ShapedSide& to, std::uint64_t bytes);

  cuda::PrimaryContexts& contexts_;
  const std::span<const std::byte> image_;
  std::unique_ptr<Loaded> loaded_;
  std::unique_ptr<RunLists> lists_;
};

}  // namespace isthmus
