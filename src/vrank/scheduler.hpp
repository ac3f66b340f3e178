#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/rank_turns.hpp"
#include "vrank/rank_stack.hpp"
#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {

/// What the C edge has for a rank, and makes that of all calls when the rank has its turn.
struct Edge {
  void* (*make)(RankTurns& turns);
  void (*make_current)(void* runtime) noexcept;
  /// Whether the rank has begun MPI and not ended it, and whether it has called MPI_Finalize.
  bool (*is_open)(const void* runtime) noexcept;
  bool (*has_finalized)(const void* runtime) noexcept;
};

/// A rank, as the scheduler has it: a stack, thread-local storage, an environment.
struct Fiber {
  void* context = nullptr;       ///< where it goes on (Boost.Context); null: it has ended
  std::uintptr_t thread = 0;     ///< its thread pointer
  char** environment = nullptr;  ///< its `environ`
  void* runtime = nullptr;       ///< of the C edge
  RankPost post{};               ///< once it has joined the job
  Fiber* next = nullptr;         ///< whose turn comes after it, in a circle
};

/// The ranks of a process take turns on its one thread. Who waits gives way to the next whom somebody has
/// written to, or else to the next at all; when all of them have looked in vain for a while, they announce
/// that they may sleep, look once more, and the process sleeps.
class Scheduler final : public RankTurns {
 public:
  /// Ranks from `first` on. `edge` must outlive the scheduler.
  Scheduler(std::uint32_t first, std::uint32_t count, const Edge& edge);

  [[nodiscard]] bool is_here(std::uint32_t rank) const noexcept override { return rank - first_ < count_; }
  void joined(const RankPost& post) override;
  void give_way(bool had_news, bool may_sleep) noexcept override;
  void wake() noexcept override;

  /// Adds a rank that begins in `begin(argument)`, which must not return: it calls `end`.
  void add(Fiber& fiber, const RankStack& stack, void (*begin)(void*), void* argument);
  /// From the process's own stack: runs ranks until one has ended, and returns it; null where none is left.
  Fiber* run();
  /// The rank whose turn it is has ended.
  [[noreturn]] void end() noexcept;
  /// Null between turns.
  [[nodiscard]] Fiber* current() const noexcept { return current_ == &main_ ? nullptr : current_; }

 private:
  enum class Stage : std::uint8_t { busy, announcing, checking };

  void switch_to(Fiber& to) noexcept;
  [[nodiscard]] Fiber* choose() noexcept;
  void had_no_news(bool may_sleep) noexcept;
  void sleep() noexcept;
  void enter(Stage stage) noexcept;

  const std::uint32_t first_, count_;
  const Edge& edge_;
  Fiber main_;
  Fiber* current_ = &main_;
  Fiber* last_ = nullptr;  ///< of the circle; null: it is empty
  Fiber* ended_ = nullptr;
  std::uint32_t living_ = 0;
  std::uint32_t picks_ = 0;  ///< turns since the last that was nobody's but the next one's
  Stage stage_ = Stage::busy;
  std::uint32_t fruitless_ = 0;  ///< turns in this stage
  bool all_may_sleep_ = true;
  std::atomic<std::uint32_t> own_wakes_{0};  ///< slept on until a rank has joined the job
  std::atomic<std::atomic<std::uint32_t>*> wakes_{&own_wakes_};
  std::uint32_t wakes_seen_ = 0;
};

}  // namespace isthmus::vrank
