#pragma once

#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "base/rank_turns.hpp"
#include "base/system/blocked_signals.hpp"

namespace isthmus::launch {

/// Does `work`, which returns a `Result` and waits for other processes in the kernel: for a launcher's fence,
/// for who hands out a region. Where this process has several ranks it may be one of them that is waited for,
/// so the work is done on a thread of its own and the other ranks have their turns meanwhile. `turns`:
/// its own; null where the process is one rank, and then the caller does it.
///
/// `work` must not look at the environment, which is that of the rank whose turn it is.
template <class Work>
std::invoke_result_t<Work&> beside_turns(RankTurns* turns, Work work) {
  if (!turns) return work();
  std::optional<std::invoke_result_t<Work&>> result;
  std::exception_ptr thrown;
  std::atomic<bool> has_ended{false};
  std::jthread thread;
  try {
    const BlockedSignals blocked;
    thread = std::jthread([&] {
      try {
        result.emplace(work());
      } catch (...) {
        thrown = std::current_exception();
      }
      has_ended.store(true, std::memory_order_seq_cst);
      turns->wake();
    });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, std::string("a thread cannot be made: ") + error.what());
  }
  bool had_news = true, may_sleep = false;
  while (!has_ended.load(std::memory_order_seq_cst)) {
    may_sleep = may_sleep || turns->announces();
    turns->give_way(had_news, may_sleep);
    had_news = false;
  }
  thread.join();
  if (thrown) std::rethrow_exception(thrown);
  return std::move(*result);
}

}  // namespace isthmus::launch
