#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.hpp"
#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {

/// The threads that keep the thread-local storage of a process's ranks. Any thread may call.
class RankThreads {
 public:
  /// The thread pointer of `rank`, whose thread is started where there is none. `end`: of its stack.
  Result<std::uintptr_t> pointer_of(std::uint32_t rank, std::uint64_t end);
  /// Runs the destructors of thread-local variables that have not run yet.
  void end(std::uint32_t rank);

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, std::unique_ptr<RankThread>> threads_;  ///< by rank
};

}  // namespace isthmus::vrank
