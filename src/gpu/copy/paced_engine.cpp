#include "gpu/copy/paced_engine.hpp"

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {

static_assert(sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t) &&
              std::atomic<std::uint64_t>::is_always_lock_free);

Result<std::unique_ptr<PacedEngine>> PacedEngine::make(cuda::PrimaryContexts& contexts, cuda::Device device,
                                                       const PinnedRange& pinned,
                                                       std::atomic<std::uint64_t>& word, Side side) {
  constexpr std::size_t events = 32;  // of all that is under way: none is made later
  std::unique_ptr<PacedEngine> made(new PacedEngine(contexts, device, pinned, word, side));
  ISTHMUS_TRY(made->engine_.prepare(events));
  const std::uint64_t now = word.load(std::memory_order_acquire);
  const auto nothing = [](cuda::Stream) { return Result<>(); };
  auto tried = side == Side::writes ? made->start_and_tell(now, nothing) : made->start_when(now, nothing);
  if (!tried) return std::unexpected(std::move(tried).error());
  ISTHMUS_TRY(tried->wait());
  return made;
}

Result<> PacedEngine::put(cuda::Stream stream, bool writes, std::uint64_t position) {
  const cuda::Status status =
      writes ? functions_.stream_write_value_64(stream, word_, position, 0)
             : functions_.stream_wait_value_64(stream, word_, position, cuda::wait_at_least);
  if (status == cuda::Status::success) return {};
  return cuda::fail(functions_, status,
                    writes ? "let a stream write to memory of the host (cuStreamWriteValue64)"
                           : "let a stream wait for a word in memory of the host (cuStreamWaitValue64)");
}

Result<PendingCopy> PacedEngine::start_and_tell(std::uint64_t position, const Work& work) {
  return engine_.start([&](cuda::Stream stream) -> Result<> {
    ISTHMUS_TRY(work(stream));
    return put(stream, true, position);
  });
}

Result<PendingCopy> PacedEngine::start_when(std::uint64_t position, const Work& work) {
  return engine_.start([&](cuda::Stream stream) -> Result<> {
    ISTHMUS_TRY(put(stream, false, position));
    return work(stream);
  });
}

}  // namespace isthmus
