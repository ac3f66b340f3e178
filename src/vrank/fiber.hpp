#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "base/rank_turns.hpp"

namespace isthmus::vrank {

class Worker;

/// A rank, as workers have it: a stack, thread-local storage, an environment.
class Fiber final : public RankTurns {
 public:
  [[nodiscard]] bool is_here(std::uint32_t rank) const noexcept override;
  void joined(RankPost its_post) override;
  void give_way(bool had_news, bool may_sleep) noexcept override;
  void wake() noexcept override;
  void await_all() noexcept override;
  [[nodiscard]] std::uint32_t worker() const noexcept override;
  [[nodiscard]] std::uint32_t workers() const noexcept override;
  [[nodiscard]] bool can_move() const noexcept override;
  void move_to(std::uint32_t to) noexcept override;
  [[nodiscard]] std::uint64_t take_work() noexcept override;
  [[nodiscard]] std::span<const HostWorker> host_workers() const noexcept override;
  [[nodiscard]] HostLines* lines() const noexcept override;
  [[nodiscard]] std::uint32_t process() const noexcept override;
  [[nodiscard]] std::string why_tied() override;
  Result<> leave_for(HostWorker to) override;
  [[nodiscard]] int region_descriptor() const noexcept override;
  [[nodiscard]] int box_descriptor() const noexcept override;
  /// The rank has its turn with worker `to`, until it gives way: from there it goes back to its own.
  void visit(std::uint32_t to) noexcept;

  /// `with` gives it its turns from now on.
  void attach(Worker& with, const WorkerState& said) noexcept {
    state_ = &said;
    at.store(&with, std::memory_order_seq_cst);
  }

  void* context = nullptr;           ///< where it goes on (Boost.Context)
  std::uintptr_t thread = 0;         ///< its thread pointer
  char** environment = nullptr;      ///< its `environ`
  void* runtime = nullptr;           ///< of the C edge
  RankPost post{};                   ///< once it has joined the job
  bool has_joined = false;           ///< or ended
  bool has_awaited = false;          ///< all others of its process
  std::atomic<Worker*> at{nullptr};  ///< that gives it its turns
  Worker* home = nullptr;            ///< to which it goes when it gives way
  Fiber* next = nullptr;             ///< whose turn comes after it, in a circle
  std::uint64_t work = 0;            ///< ticks, without its turn now
  void* owner = nullptr;             ///< what the process keeps of it
  bool leaves = false;               ///< when it gives up its turn: for `destination`
  HostWorker destination{};
  const char* why_not = nullptr;  ///< it has not left after all
};

}  // namespace isthmus::vrank
