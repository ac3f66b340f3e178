#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "vrank/fiber.hpp"

namespace isthmus::vrank {

class Scheduler;

/// A thread of the process, on which ranks take turns. Who waits gives way to the next whom somebody has
/// written to, or else to the next at all; when all of them have looked in vain for a while, they announce
/// that they may sleep, look once more, and the worker sleeps. Used by its thread alone, but for `receive`
/// and `wake`.
class Worker {
 public:
  /// `index`: which of the process's it is; `is_one_of_several`: whether there are others.
  Worker(Scheduler& process, std::uint32_t index, bool is_one_of_several) noexcept
      : process_(process),
        index_(index),
        is_one_of_several_(is_one_of_several),
        switches_environment_(index == 0) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] Scheduler& process() noexcept { return process_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] std::uint32_t sleeps() const noexcept { return state_.sleeps; }

  /// From the thread's own stack: gives turns until a rank has ended, or leaves for another process
  /// (`Fiber::leaves`), and returns it; null where the process has none left.
  Fiber* run();

  // In the turn of `fiber`:

  void give_way(Fiber& fiber, bool had_news, bool may_sleep) noexcept;
  /// Its next turn is one of `to`, where this returns.
  void move(Fiber& fiber, Worker& to) noexcept;
  /// It goes on in another process, where this returns, or here, in a later turn.
  void leave(Fiber& fiber) noexcept;
  /// It has ended.
  [[noreturn]] void end(Fiber& fiber) noexcept;
  /// `fiber` has joined the job, or come from another worker: it sleeps with this one.
  void sleep_with(Fiber& fiber);
  [[nodiscard]] std::uint64_t take_work(Fiber& fiber) noexcept;
  /// Ranks come from other processes. It sleeps on `word`, whichever ranks it has: their mappings go with
  /// them.
  void expect_ranks(std::atomic<std::uint32_t>& word) noexcept {
    is_one_of_several_ = true;
    wakes_.store(own_ = &word, std::memory_order_seq_cst);
  }
  /// From now on `environ` stays what it is. Before, a switch sets that of the rank with worker 0.
  void keep_environment() noexcept { switches_environment_ = false; }

  // From any thread:

  /// A rank that has its turns here from now on. It has none now.
  void receive(Fiber& fiber) noexcept;
  void wake() noexcept;

 private:
  enum class Stage : std::uint8_t { busy, announcing, checking };

  void admit() noexcept;
  void remove(Fiber& fiber) noexcept;
  [[nodiscard]] bool wait_for_rank() noexcept;
  void switch_to(Fiber& to) noexcept;
  [[nodiscard]] Fiber* choose(Fiber& fiber) noexcept;
  void had_no_news(bool may_sleep) noexcept;
  void let_others_run() noexcept;
  void come_back(std::uint64_t left) noexcept;
  [[nodiscard]] std::uint64_t end_turn() noexcept;
  void sleep() noexcept;
  void enter(Stage stage) noexcept;

  Scheduler& process_;
  const std::uint32_t index_;
  bool is_one_of_several_;
  bool switches_environment_;
  Fiber main_;
  Fiber* current_ = &main_;
  Fiber* last_ = nullptr;          ///< of the circle; null: it is empty
  Fiber* ended_ = nullptr;         ///< it has just ended,
  Fiber* leaving_ = nullptr;       ///< or leaves
  Worker* destination_ = nullptr;  ///< for this worker
  std::uint32_t living_ = 0;       ///< in the circle
  std::uint32_t picks_ = 0;        ///< turns since the last that was nobody's but the next one's
  Stage stage_ = Stage::busy;
  WorkerState state_;
  std::uint32_t fruitless_ = 0;  ///< turns in this stage
  bool all_may_sleep_ = true;
  /// By three clocks: how much of the time from one reading to the next the thread has had a processor.
  struct Reading {
    std::uint64_t ticks = 0;
    std::int64_t nanoseconds = 0;
    std::int64_t on_processor = 0;

    static Reading now() noexcept;
    /// Ticks since `earlier` without a processor.
    [[nodiscard]] std::uint64_t lost_since(const Reading& earlier) const noexcept;
  };
  std::uint64_t since_ = 0;  ///< when the turn began, in ticks
  Reading read_;             ///< the latest
  std::uint64_t away_ = 0;   ///< ticks since then that were no turn's: sleeps, and while others ran
  std::uint32_t wakes_seen_ = 0;
  std::atomic<std::uint32_t> own_wakes_{0};  ///< slept on until one of its ranks has joined the job
  std::atomic<std::atomic<std::uint32_t>*> wakes_{&own_wakes_};
  std::atomic<std::uint32_t>* own_ = nullptr;  ///< null: that which its ranks name
  std::atomic<Fiber*> arrivals_{nullptr};      ///< a list by `next`
};

}  // namespace isthmus::vrank
