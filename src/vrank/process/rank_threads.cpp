#include "vrank/process/rank_threads.hpp"

#include <utility>

namespace isthmus::vrank {

Result<std::uintptr_t> RankThreads::pointer_of(std::uint32_t rank, std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<RankThread>& thread = threads_[rank];
  if (!thread) {
    auto started = RankThread::start(end);
    if (!started) return std::unexpected(std::move(started).error());
    thread = std::move(*started);
  }
  return thread->pointer();
}

void RankThreads::end(std::uint32_t rank) {
  std::unique_ptr<RankThread> thread;
  {
    const std::lock_guard lock(mutex_);
    thread = std::move(threads_[rank]);
    threads_.erase(rank);
  }
  thread.reset();
}

}  // namespace isthmus::vrank
