#include "coll/gpu/work.hpp"

namespace isthmus::coll {
namespace {

/// Whether one kernel copies so many pieces sooner than copy engines do, one each. Two pieces from two GPUs,
/// 8 B, 1 MiB, 4 MiB and 16 MiB in all: 12.3, 15.3, 19.1 and 39.2 us by kernel, 16.2, 16.8, 23.0 and 39.4 by
/// copy engines.
bool is_for_kernel(std::size_t pieces, std::uint64_t bytes) {
  constexpr std::uint64_t most = 8U << 20U;
  return pieces > 1 && pieces <= GpuKernels::most_pieces && bytes <= most;
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

Result<> GpuWork::reduce(const Reduction& what, std::span<const std::byte* const> sources,
                         std::span<std::byte* const> results) {
  auto where = first_stream();
  if (!where) return std::unexpected(std::move(where).error());
  return team_.gpu().copies().kernels().reduce(*where, *what.op, *what.type, sources, results, what.count);
}

Result<> GpuWork::deal(const std::byte* from, std::span<std::byte* const> to, std::uint64_t bytes) {
  auto where = first_stream();
  if (!where) return std::unexpected(std::move(where).error());
  return team_.gpu().copies().kernels().deal(*where, from, to, bytes);
}

Result<> GpuWork::copy(std::span<const CopyPiece> pieces) {
  std::uint64_t bytes = 0;
  for (const CopyPiece& piece : pieces)
    bytes += piece.bytes;
  // What a member copies by kernel nobody else needs to know.
  if (team_.has_kernels() && is_for_kernel(pieces.size(), bytes)) {
    auto where = first_stream();
    if (!where) return std::unexpected(std::move(where).error());
    return team_.gpu().copies().kernels().copy(*where, pieces);
  }
  // A kernel is on the first.
  std::size_t next = used_[0] ? 1 : 0;
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
      team_.team().engine().progress_for_test();
    }
  }
  return {};
}

void GpuWork::drain() noexcept {
  for (GpuQueue* queue : used_)
    if (queue) queue->drain();
}

}  // namespace isthmus::coll
