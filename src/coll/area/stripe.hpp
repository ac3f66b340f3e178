#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <utility>

#include "coll/area/lane_area.hpp"

namespace isthmus::coll {

/// One sequence of steps in shared memory, from this member's side: all members take its steps in the same
/// order, and finish them in any. Steps may be taken before the memory is there.
class Stripe {
 public:
  void put_at(const StripeMemory& memory, int rank) noexcept {
    memory_ = memory;
    rank_ = rank;
  }
  [[nodiscard]] const StripeMemory& memory() const noexcept { return memory_; }

  std::uint64_t take() noexcept { return ++taken_; }
  /// Whether nobody reads any more what this member has said `depth` steps before `step`.
  [[nodiscard]] bool is_free(std::uint64_t step, std::uint64_t depth) noexcept {
    return step <= all_finished_ + depth || look_for_readers(step - depth);
  }
  /// This member reads nothing of `step` any more, in any memory. True if others may have waited for that.
  [[gnu::always_inline]] bool finish(std::uint64_t step) noexcept {
    if (step != finished_ + 1) [[unlikely]] {
      finished_steps_[step % nonblocking_depth] = true;
      return false;
    }
    finished_ = step;
    while (finished_steps_[(finished_ + 1) % nonblocking_depth]) [[unlikely]]
      finished_steps_[++finished_ % nonblocking_depth] = false;
    if (!memory_.finished) return false;
    memory_.finished[rank_].sequence.store(finished_, std::memory_order_release);
    return true;
  }
  /// None was taken behind `step`; and this member has finished all before it.
  [[nodiscard]] bool is_last(std::uint64_t step) const noexcept { return taken_ == step; }
  [[nodiscard]] bool is_only(std::uint64_t step) const noexcept {
    return is_last(step) && finished_ + 1 == step;
  }
  [[nodiscard]] bool has_finished(int rank, std::uint64_t step) const noexcept {
    return memory_.finished[rank].sequence.load(std::memory_order_acquire) >= step;
  }
  /// Calls whose way is learned are numbered as they start, alike at all members.
  std::uint64_t number() noexcept { return ++numbered_; }

 private:
  bool look_for_readers(std::uint64_t step) noexcept {
    std::uint64_t least = taken_;
    for (std::uint64_t i = 0; i < memory_.ranks; ++i) {
      const std::uint64_t finished = memory_.finished[i].sequence.load(std::memory_order_acquire);
      if (finished < step) return false;
      if (finished < least) least = finished;
    }
    all_finished_ = least;
    return true;
  }

  StripeMemory memory_{};
  int rank_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t finished_ = 0;      ///< this one and all before it, by this member
  std::uint64_t all_finished_ = 0;  ///< by all members, as far as has been looked at
  /// Of the steps behind the one after `finished_`, by their place in the ring.
  std::bitset<nonblocking_depth> finished_steps_;
  std::uint64_t numbered_ = 0;
};

}  // namespace isthmus::coll
