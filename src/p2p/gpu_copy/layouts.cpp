#include "p2p/gpu_copy/layouts.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "datatype/cursor.hpp"
#include "gpu/driver/cuda_error.hpp"
#include "p2p/gpu_copy/pieces.hpp"

namespace isthmus {
namespace {

/// Bytes of a passage: large enough that the copy engine is at its full rate, small enough that nobody misses
/// them.
constexpr std::size_t passage_bytes = std::size_t{4} << 20U;
/// Where the device has no more.
constexpr std::size_t least_passage_bytes = std::size_t{64} << 10U;

LaidOut laid_out(const Payload& payload, std::uint64_t position = 0) {
  return {.data = payload.data, .type = payload.type, .count = payload.count, .position = position};
}

std::uint64_t blocks_of(const Payload& payload) {
  if (!payload.type) return 1;
  const std::uint64_t each = Cursor(*payload.type, payload.data, payload.count).mean_block();
  return each == 0 ? 1 : payload.bytes / each;
}

/// As long as a few MiB take to be packed, the answer is polled for: the driver's own wait answers later.
Result<> wait_awake(const PendingCopy& copy) {
  using Clock = std::chrono::steady_clock;
  constexpr auto patience = std::chrono::microseconds(30);
  const auto begin = Clock::now();
  do {
    auto done = copy.is_done();
    if (!done) return std::unexpected(std::move(done).error());
    if (*done) return {};
  } while (Clock::now() - begin < patience);
  return copy.wait();
}

/// The first byte that a payload has.
const void* first_byte(const Payload& payload) {
  if (!payload.type) return payload.data;
  Cursor cursor(*payload.type, payload.data, payload.count);
  std::array<Segment, 1> first{};
  return cursor.segments(first) == 1 ? first[0].data : payload.data;
}

}  // namespace

Result<GpuLayouts::Reach> GpuLayouts::reach_of(const Payload& payload, cuda::Device device) {
  auto buffer = classifier_.classify(first_byte(payload), 1);
  if (!buffer) return std::unexpected(std::move(buffer).error());
  if (buffer->kind == MemoryKind::pinned) return Reach::kernels;
  // Kernels would drag other managed pages to the GPU. A call of the driver for each block moves none, and
  // takes 10 us each: a million of 8 bytes took 10 s (H200).
  if (buffer->is_host_readable())
    return buffer->is_on_gpu() && buffer->device == device ? Reach::kernels : Reach::processor;
  if (!buffer->is_own) return Reach::opened;
  // Copy engines reach every GPU and context of the process, kernels only those that the program has let
  // them.
  const bool is_other_context = !reaches(contexts_, *buffer);
  if (is_other_context)
    warn_once(
        "they lie in a CUDA context of the program's own (cuCtxCreate), and kernels run in the primary");
  return buffer->device == device && !is_other_context ? Reach::kernels : Reach::engines;
}

void GpuLayouts::warn_once(std::string_view why) {
  if (may_warn_ && !std::exchange(has_warned_, true))
    warn("messages with gaps in GPU memory are copied a block at a time, and the host computes reductions: " +
         std::string(why));
}

bool GpuLayouts::has_kernels(cuda::Device device) {
  const std::string& trouble = kernels_.trouble(device);
  if (!trouble.empty()) warn_once(trouble);
  return trouble.empty();
}

bool GpuLayouts::can_use_kernels(cuda::Device device, const Payload& from, const Payload& to) {
  return has_kernels(device) && GpuKernels::can_move(laid_out(from)) && GpuKernels::can_move(laid_out(to));
}

Result<PendingCopy> GpuLayouts::start(CopyEngine& engine, const Payload& from, const Payload& to,
                                      std::uint64_t bytes) {
  if (blocks_of(from) == 1 && blocks_of(to) == 1) return engine.start(pieces_of(from, to, bytes));
  if (!can_use_kernels(engine.device(), from, to)) return engine.start(pieces_of(from, to, bytes));
  auto source = reach_of(from, engine.device());
  if (!source) return std::unexpected(std::move(source).error());
  auto target = reach_of(to, engine.device());
  if (!target) return std::unexpected(std::move(target).error());
  // What was opened was opened for this GPU: that of the other side, or where that is the host's, its own.
  const bool from_kernels =
      *source == Reach::kernels || (*source == Reach::opened && *target != Reach::engines);
  const bool to_kernels =
      *target == Reach::kernels || (*target == Reach::opened && *source != Reach::engines);
  std::optional<Result<PendingCopy>> copy;
  if (from_kernels && to_kernels)
    copy = by_kernel(engine, from, to, bytes);
  else if (from_kernels && (!to.type || *target == Reach::processor))
    copy = out_of_gpu(engine, from, to, bytes);
  else if (to_kernels && (!from.type || *source == Reach::processor))
    copy = into_gpu(engine, from, to, bytes);
  if (copy && (*copy || copy->error().error_class() != ErrorClass::no_mem)) return std::move(*copy);
  if (copy) warn_once(copy->error().text());
  return engine.start(pieces_of(from, to, bytes));
}

Result<PendingCopy> GpuLayouts::by_kernel(CopyEngine& engine, const Payload& from, const Payload& to,
                                          std::uint64_t bytes) {
  return engine.start([&](cuda::Stream stream) {
    return kernels_.move({engine.device(), stream}, laid_out(from), laid_out(to), bytes);
  });
}

Result<> GpuLayouts::copy_run(cuda::Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  const cuda::Functions& functions = contexts_.functions();
  const cuda::Status status = functions.copy_async(reinterpret_cast<cuda::Address>(to),
                                                   reinterpret_cast<cuda::Address>(from), bytes, stream);
  if (status == cuda::Status::success) return {};
  return cuda::fail(functions, status, "copy " + std::to_string(bytes) + " bytes");
}

Result<const DeviceBuffer*> GpuLayouts::passage_of(GpuStream where) {
  DeviceBuffer& passage = passages_[where.stream];
  // Gone with a reset of the device, after which streams may have the names of earlier ones.
  if (passage.data() && passage.life() != contexts_.life(where.device)) passage = {};
  for (std::size_t bytes = passage_bytes; !passage.data(); bytes /= 4) {
    auto taken = pool_.take(where.device, bytes);
    if (taken)
      passage = std::move(*taken);
    else if (taken.error().error_class() != ErrorClass::no_mem || bytes <= least_passage_bytes)
      return std::unexpected(std::move(taken).error());
  }
  return &passage;
}

Result<PendingCopy> GpuLayouts::by_passage(CopyEngine& engine, std::uint64_t bytes,
                                           const std::function<Result<>(const Passing&)>& pass) {
  return engine.start([&](cuda::Stream stream) -> Result<> {
    auto taken = passage_of({engine.device(), stream});
    if (!taken) return std::unexpected(std::move(taken).error());
    const DeviceBuffer& passage = **taken;
    for (std::uint64_t at = 0; at < bytes; at += passage.size())
      ISTHMUS_TRY(pass({.stream = stream,
                        .passage = passage.data(),
                        .at = at,
                        .bytes = std::min<std::uint64_t>(bytes - at, passage.size())}));
    return {};
  });
}

Result<PendingCopy> GpuLayouts::out_of_gpu(CopyEngine& engine, const Payload& from, const Payload& to,
                                           std::uint64_t bytes) {
  if (to.type) {
    // The processor puts it where it belongs.
    auto packed = std::make_unique_for_overwrite<std::byte[]>(bytes);
    auto copy = start(engine, from, Payload::of(packed.get(), bytes), bytes);
    if (!copy) return copy;
    ISTHMUS_TRY(copy->wait());
    unpack(*to.type, to.data, to.count, {packed.get(), bytes});
    return copy;
  }
  return by_passage(engine, bytes, [&](const Passing& part) -> Result<> {
    ISTHMUS_TRY(kernels_.move({engine.device(), part.stream}, laid_out(from, part.at), {.data = part.passage},
                              part.bytes));
    return copy_run(part.stream, to.data + part.at, part.passage, part.bytes);
  });
}

Result<PendingCopy> GpuLayouts::into_gpu(CopyEngine& engine, const Payload& from, const Payload& to,
                                         std::uint64_t bytes) {
  if (from.type) {
    auto packed = std::make_unique_for_overwrite<std::byte[]>(bytes);
    isthmus::pack(*from.type, from.data, from.count, {packed.get(), bytes});
    auto copy = start(engine, Payload::of(packed.get(), bytes), to, bytes);
    if (copy) ISTHMUS_TRY(copy->wait());
    return copy;
  }
  return by_passage(engine, bytes, [&](const Passing& part) -> Result<> {
    ISTHMUS_TRY(copy_run(part.stream, part.passage, from.data + part.at, part.bytes));
    return kernels_.move({engine.device(), part.stream}, {.data = part.passage}, laid_out(to, part.at),
                         part.bytes);
  });
}

bool GpuLayouts::can_move(CopyEngine& engine, const Payload& payload) {
  const auto reach = reach_of(payload, engine.device());
  return reach && *reach == Reach::kernels && can_use_kernels(engine.device(), payload, payload);
}

Result<PendingCopy> GpuLayouts::read(CopyEngine& engine, const ShapedSide& from, const Payload& to,
                                     std::uint64_t bytes) {
  return engine.start([&](cuda::Stream stream) {
    return kernels_.move({engine.device(), stream}, from, laid_out(to), bytes);
  });
}

Result<DeviceBuffer> GpuLayouts::pack(CopyEngine& engine, const Payload& payload) {
  const Payload whole = Payload::of(payload.data, payload.bytes);
  auto reach = reach_of(payload, engine.device());
  if (!reach) return std::unexpected(std::move(reach).error());
  if (*reach != Reach::kernels || !can_use_kernels(engine.device(), payload, whole))
    return fail(ErrorClass::unsupported_operation, "no kernel packs the message");
  auto packed = pool_.take(engine.device(), payload.bytes);
  if (!packed) return packed;
  auto copy = by_kernel(engine, payload, Payload::of(packed->data(), payload.bytes), payload.bytes);
  if (!copy) return std::unexpected(std::move(copy).error());
  ISTHMUS_TRY(wait_awake(*copy));
  return packed;
}

Result<bool> GpuLayouts::reduce(CopyEngine& engine, const Op& op, const Datatype& type, const void* in,
                                void* inout, std::int64_t count) {
  if (!has_kernels(engine.device())) return false;
  const std::array sources{static_cast<const std::byte*>(in), static_cast<const std::byte*>(inout)};
  auto done = engine.start([&](cuda::Stream stream) {
    return kernels_.reduce({engine.device(), stream}, op, type, sources, static_cast<std::byte*>(inout),
                           count);
  });
  if (!done) return std::unexpected(std::move(done).error());
  ISTHMUS_TRY(done->wait());
  return true;
}

}  // namespace isthmus
