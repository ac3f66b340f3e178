#include "p2p/gpu_copy/copies.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "gpu/memory/allocation_id.hpp"

namespace isthmus {
namespace {

/// Bytes of copies that may be known to be done at the same time: what a GPU copies in 10 us.
constexpr std::size_t together = std::size_t{4} << 20U;

/// Events of each engine of a GPU whose streams wait for messages: as many copies may be under way before one
/// more has to be made.
constexpr std::size_t copies_prepared = 64;

}  // namespace

Result<Buffer> GpuCopies::look(const Payload& payload) {
  if (payload.bytes == 0) return Buffer{};
  const std::int64_t begin = payload.type ? payload.type->true_lb() : 0;
  const auto address = reinterpret_cast<std::uintptr_t>(payload.data) + static_cast<std::uintptr_t>(begin);
  auto buffer =
      classifier_.classify(reinterpret_cast<const void*>(address),  // NOLINT(performance-no-int-to-ptr)
                           payload.bytes);
  // A process with pinned buffers alone copies by the GPU that they were pinned for.
  if (buffer && buffer->kind == MemoryKind::pinned && last_device_ == cuda::no_device)
    last_device_ = buffer->device;
  if (!buffer || !buffer->is_on_gpu()) return buffer;
  ISTHMUS_TRY(check_alive(buffer->device));
  last_device_ = buffer->device;
  return buffer;
}

Result<std::optional<Buffer>> GpuCopies::find(const Payload& payload) {
  auto buffer = look(payload);
  if (!buffer) return std::unexpected(std::move(buffer).error());
  if (!buffer->is_on_gpu()) return std::nullopt;
  return *buffer;
}

Result<> GpuCopies::copy(const Buffer& near, const Payload& from, const Payload& to) {
  auto copy = start(near, from, to, std::min(from.bytes, to.bytes));
  if (!copy) return std::unexpected(std::move(copy).error());
  return copy->wait();
}

Result<bool> GpuCopies::try_copy(const Payload& from, const Payload& to) {
  auto near = find(from);
  if (near && !*near) near = find(to);
  if (!near) return std::unexpected(std::move(near).error());
  if (!*near) return false;
  ISTHMUS_TRY(copy(**near, from, to));
  return true;
}

Result<bool> GpuCopies::try_reduce(const Op& op, const Datatype& type, const void* in, void* inout,
                                   std::int64_t count) {
  if (count <= 0 || !GpuKernels::can_reduce(op, type)) return false;
  auto left = find(Payload::of(in, count, type));
  if (left && *left) {
    auto right = find(Payload::of(inout, count, type));
    if (!right) return std::unexpected(std::move(right).error());
    if (!*right || (*right)->device != (*left)->device) return false;
    if (!reaches(contexts_, **left) || !reaches(contexts_, **right)) return false;
    return layouts_.reduce(engine_on((*left)->device), op, type, in, inout, count);
  }
  if (!left) return std::unexpected(std::move(left).error());
  return false;
}

CopyEngine& GpuCopies::engine_on(cuda::Device device) {
  return engines_.try_emplace(device, contexts_, device, 2, together).first->second;
}

Result<> GpuCopies::check_still_there(const Buffer& near) {
  ISTHMUS_TRY(check_alive(near.device));
  if (near.allocation == 0) return {};
  std::uint64_t buffer = 0;
  std::uint64_t block = 0;
  std::array attributes{cuda::PointerAttribute::buffer_id, cuda::PointerAttribute::block_id};
  std::array<void*, 2> values{&buffer, &block};
  const cuda::Status status = contexts_.functions().pointer_attributes(
      attributes.size(), attributes.data(), values.data(), reinterpret_cast<cuda::Address>(near.data));
  // What else is wrong, the copy will say.
  if (status != cuda::Status::success || allocation_id(near.kind, buffer, block) == near.allocation)
    return {};
  return isthmus::fail(ErrorClass::buffer,
                       "the program has freed GPU memory that a message is still to be copied from or to");
}

Result<PendingCopy> GpuCopies::start(const Buffer& near, const Payload& from, const Payload& to,
                                     std::uint64_t bytes) {
  ISTHMUS_TRY(check_still_there(near));
  CopyEngine& engine = engine_on(near.device);
  if (!from.type && !to.type) return engine.start(to.data, from.data, bytes);
  return layouts_.start(engine, from, to, bytes);
}

Result<PendingCopy> GpuCopies::stage(const Buffer& near, Direction direction, const CopyPiece& piece) {
  ISTHMUS_TRY(check_still_there(near));
  return staging_engine(near.device, direction).start({&piece, 1});
}

bool GpuCopies::can_stage_together(const Buffer& near) {
  return near.kind != MemoryKind::managed && kernels().trouble(near.device).empty() &&
         reaches(contexts_, near) && check_still_there(near);
}

Result<PendingCopy> GpuCopies::start_together(cuda::Device device, std::span<const CopyPiece> pieces) {
  auto copy = engine_on(device).start_together(pieces);
  if (copy) started_together_ += pieces.size();
  return copy;
}

Result<PendingCopy> GpuCopies::stage_together(cuda::Device device, Direction direction,
                                              std::span<const CopyPiece> pieces) {
  CopyEngine& engine = staging_engine(device, direction);
  started_together_ += pieces.size();
  if (std::ranges::any_of(pieces, [](const CopyPiece& piece) { return piece.bytes > longest_by_kernel; }))
    return engine.start_together(pieces);
  return engine.start([&](cuda::Stream stream) { return kernels().copy({device, stream}, pieces); });
}

CopyEngine& GpuCopies::staging_engine(cuda::Device device, Direction direction) {
  auto& engines = staging_engines_[static_cast<std::size_t>(direction)];
  // Between GPUs a second stream fills the time in which the engine turns to the next copy.
  const bool is_between_gpus = direction == Direction::to_window || direction == Direction::from_window;
  return engines.try_emplace(device, contexts_, device, is_between_gpus ? 2 : 1).first->second;
}

Result<> GpuCopies::prepare(cuda::Device device) {
  // Where there are none, copies do their work.
  static_cast<void>(kernels().load_all(device));
  ISTHMUS_TRY(engine_on(device).prepare(copies_prepared));
  for (const Direction direction :
       {Direction::to_host, Direction::from_host, Direction::to_window, Direction::from_window})
    ISTHMUS_TRY(staging_engine(device, direction).prepare(copies_prepared));
  return {};
}

PinnedPool& GpuCopies::pinned_pool(cuda::Device device) {
  // For one collective across hosts, and for stand-ins of another one within it.
  constexpr PinnedPool::Limits limits{.most = std::size_t{128} << 20U};
  return pinned_.try_emplace(device, contexts_, device, limits).first->second;
}

}  // namespace isthmus
