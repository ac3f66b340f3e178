#include "coll/gpu_work.hpp"

namespace isthmus::coll {
namespace {

/// Bytes up to which one kernel copies so many pieces sooner than copy engines do.
constexpr std::uint64_t by_kernel(std::size_t pieces) {
  return pieces <= 1 ? 0 : std::uint64_t{512} << 10U;
}

}  // namespace

Result<GpuQueue*> GpuWork::queue(std::size_t index) {
  if (!used_[index]) {
    auto queue = team_.queue(index);
    if (!queue) return queue;
    (*queue)->forget_marks();
    used_[index] = *queue;
  }
  return used_[index];
}

Result<GpuStream> GpuWork::first_stream() {
  auto first = queue(0);
  if (!first) return std::unexpected(std::move(first).error());
  return GpuStream{.device = view_.device, .stream = (*first)->stream()};
}

Result<> GpuWork::reduce(const Reduction& what, std::span<const std::byte* const> sources, std::byte* result,
                         std::int64_t count) {
  auto where = first_stream();
  if (!where) return std::unexpected(std::move(where).error());
  return team_.gpu().kernels().reduce(*where, *what.op, *what.type, sources, result, count);
}

Result<> GpuWork::copy_behind(std::span<const CopyPiece> pieces) {
  auto where = first_stream();
  if (!where) return std::unexpected(std::move(where).error());
  return team_.gpu().kernels().copy(*where, pieces);
}

Result<> GpuWork::copy(std::span<const CopyPiece> pieces) {
  std::uint64_t bytes = 0;
  for (const CopyPiece& piece : pieces)
    bytes += piece.bytes;
  // What a member copies by kernel nobody else needs to know.
  if (team_.has_kernels() && pieces.size() <= GpuKernels::most_pieces && bytes <= by_kernel(pieces.size()))
    return copy_behind(pieces);
  std::size_t next = 0;
  for (const CopyPiece& piece : pieces) {
    if (piece.bytes == 0 || piece.to == piece.from) continue;
    auto where = queue(next++ % most_queues);
    if (!where) return std::unexpected(std::move(where).error());
    ISTHMUS_TRY((*where)->copy(piece.to, piece.from, piece.bytes));
  }
  return {};
}

Result<> GpuWork::wait() {
  std::array<std::size_t, most_queues> marks{};
  for (std::size_t i = 0; i < most_queues; ++i) {
    if (!used_[i]) continue;
    auto mark = used_[i]->mark();
    if (!mark) return std::unexpected(std::move(mark).error());
    marks[i] = *mark;
  }
  for (std::size_t i = 0; i < most_queues; ++i) {
    while (used_[i]) {
      auto passed = used_[i]->has_passed(marks[i]);
      if (!passed) return std::unexpected(std::move(passed).error());
      if (*passed) break;
      look_around();
    }
  }
  return {};
}

void GpuWork::drain() noexcept {
  for (GpuQueue* queue : used_)
    if (queue) queue->drain();
}

}  // namespace isthmus::coll
