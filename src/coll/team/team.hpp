#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/copy.hpp"
#include "base/error.hpp"
#include "coll/area/team_area.hpp"
#include "coll/team/live_calls.hpp"
#include "comm/communicator.hpp"
#include "p2p/engine.hpp"
#include "wire/heap.hpp"

namespace isthmus::coll {

/// Whether rank 0 learns how long collectives take: what a call takes is known only where clocks are those of
/// one kernel, and each rank has a core; but a program may insist on the latter.
[[nodiscard]] bool measures_calls(const Engine& engine);
/// Whether the members are on several sockets, as far as all of them have said where they are, which they
/// have when they have met.
[[nodiscard]] bool is_on_several_sockets(const Communicator& comm);

/// What the members of a communicator need to work together in shared memory: their area, where each is in
/// it, and how they wait for each other. One a communicator, made at its first collective.
///
/// Collectives are sequences of steps, the same on all members. In a step each member may say something to
/// all (its line, with its slot) and finishes when it reads nothing more of that step. A member may run ahead
/// of the others by `depth` steps, no more: so nothing is overwritten that somebody still reads.
class Team {
 public:
  /// Of the members of an intracommunicator, who share a region; null where it has no room for their area,
  /// which all of them know then. Collective, over messages.
  static Result<std::unique_ptr<Team>> make(Communicator& comm);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// This member alone has read `bytes` of the team's memory, which somebody else writes next.
  void hand_back(std::byte* read, std::uint64_t bytes) const noexcept {
    if (hands_back_) hand_back_lines(read, bytes);
  }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// In which order members meet at the nodes of the tree: neighbours in `order`, which lists all ranks,
  /// share a node. Collective; before the first meeting. Without it, the order of ranks.
  void take_seats(std::span<const int> order);
  [[nodiscard]] int seat() const noexcept { return seat_; }
  [[nodiscard]] int rank_at(int seat) const noexcept {
    return seats_.empty() ? seat : seats_[static_cast<std::size_t>(seat)];
  }
  /// Neighbours in rank are neighbours in the tree, as operations that do not commute need it.
  [[nodiscard]] bool in_order() const noexcept { return seats_.empty(); }
  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] const Area& area() const noexcept { return area_; }
  [[nodiscard]] PeerId peer(int rank) const noexcept { return comm_.peer(rank); }

  /// Whether every member can read and write the memory of every other one. Found out at the first call, by
  /// trying; a collective operation.
  Result<bool> direct();

  // --- calls that may go several ways with the same result

  /// Whether calls are live of which `LiveCalls::covers` the bytes.
  [[nodiscard]] bool has_live() const noexcept { return live_ != nullptr; }
  /// The way of such a call, which takes one step at least; waits until its first step is free. `end_call`
  /// has to follow. As `LiveCalls::begin`.
  TeamWay begin_call(const Question& question, TeamWay assumed, TeamWays possible);
  void end_call() noexcept { live_->end(area_); }

  // --- collectives that may go between GPUs

  /// Counts one of these collectives, which every member calls alike: whether all members have had data in
  /// GPU memory in this or in an earlier one, which all of them find alike. `here`: this member has it now.
  /// Nobody waits for others, and nothing is said, before some member has: 1 ns.
  bool all_use_gpu(bool here) {
    ++gpu_call_;
    if (!here && gpu_since_ == 0) [[likely]] {
      area_.presence(rank_).entered.store(gpu_call_, std::memory_order_release);
      if (sleeps_) wake_gpu_members();
      return false;
    }
    return ask_for_gpu();
  }
  /// Whether this member has had data in GPU memory in one of them.
  [[nodiscard]] bool has_used_gpu() const noexcept { return gpu_since_ != 0; }

  /// Waits for what other members write to the area, making progress meanwhile. False where it will not come,
  /// because the communicator is broken; this member has left the team then.
  template <class Ready>
  bool wait(Ready ready) {
    // With a core for each rank the answer is mostly less than a microsecond away, and a look at one line is
    // cheaper than progress on all connections.
    for (unsigned look = 0; look < looks_; ++look)
      if (ready()) return true;
    engine_.wait_for([&] { return ready() || comm_.is_broken(); });
    if (ready()) [[likely]]
      return true;
    leave();
    return false;
  }
  /// Whether what others have to do may never come.
  [[nodiscard]] bool is_broken() const noexcept { return comm_.is_broken(); }
  /// This member has waited in vain: what it heard after that means nothing.
  [[nodiscard]] bool has_left() const noexcept { return has_left_; }
  [[nodiscard]] std::unexpected<Error> loss() const { return std::unexpected(comm_.why_broken()); }
  /// After writing what all others may wait for.
  void notify_all() noexcept {
    if (sleeps_) wake_all();
  }

  void notify(int rank) noexcept { engine_.notify(peer(rank)); }

  // --- steps; `Step` in step.hpp is how collectives use them

  /// Begins the next step: returns when the line and slot of this member are free for it.
  std::uint64_t begin_step() {
    const std::uint64_t step = ++step_;
    if (step > all_finished_ + depth) [[unlikely]]
      wait_for_readers(step - depth);
    return step;
  }
  void finish_step(std::uint64_t step) noexcept {
    area_.finished(rank_).sequence.store(step, std::memory_order_release);
    if (sleeps_) wake_writers();
  }
  /// Before a bcast through one slot in each of the next `steps` steps. Of two members, where the other one
  /// was root of the bcast just before, its last slots serve again: the root writes where it has read, and
  /// nobody else has. So a line of cache goes from one to the other once, not there and back: 64 KiB with a
  /// root that moves took 2.6 us for 10.5 (Zen 4, near cores), 6 for 35 (far).
  void place_bcast(int root, std::uint64_t steps) noexcept {
    if (size_ != 2) return;
    if (bcast_.end == step_ && bcast_.root != root) slots_behind_ += std::min({bcast_.steps, steps, depth});
    bcast_ = {.root = root, .steps = steps, .end = step_ + steps};
  }
  /// Step `n` has those slots that step `n` less this would have, had none served again.
  [[nodiscard]] std::uint64_t slots_behind() const noexcept { return slots_behind_; }
  /// Everybody has been seen to have begun `step`, so to have finished the one before.
  void saw_all_begin(std::uint64_t step) noexcept { all_finished_ = step - 1; }

  /// Next meeting at the nodes of the tree.
  std::uint64_t begin_meeting() noexcept { return ++meeting_; }
  /// The last one.
  [[nodiscard]] std::uint64_t meeting() const noexcept { return meeting_; }

  /// Memory of the region with `bytes` for each member, one after the other, in which nobody reads any more
  /// what earlier calls put there; null where the region has no room. Lasts until the next call. Collective,
  /// with the same `bytes`; the step that reads it is to be named to `staged_in`.
  Result<std::byte*> stage(std::uint64_t bytes);
  void staged_in(std::uint64_t step) noexcept { stage_step_ = step; }
  /// How often members have come to the stage: the same on all.
  [[nodiscard]] std::uint64_t stagings() const noexcept { return stagings_; }

  /// In step `step`, waits until all others have finished it too.
  void wait_until_all_finished(std::uint64_t step) { wait_for_readers(step); }

 private:
  Team(Communicator& comm, const Area& area, std::uint64_t offset, std::unique_ptr<LiveCalls> live);
  void leave();
  void wait_for_readers(std::uint64_t step);
  [[nodiscard]] bool look_for_readers(std::uint64_t step) noexcept;
  void wake_all() noexcept;
  void wake_writers() noexcept;
  void wake_gpu_members() noexcept;
  [[nodiscard]] bool ask_for_gpu();

  Communicator& comm_;
  Engine& engine_;
  Area area_;
  std::unique_ptr<std::byte[]> own_area_;  ///< once this member has left
  const std::uint64_t offset_;
  const int rank_;
  const int size_;
  int seat_;
  std::vector<int> seats_;  ///< the rank of each; empty: its own
  const bool sleeps_;
  const bool hands_back_;
  const unsigned looks_;
  std::uint64_t step_ = 0;
  std::uint64_t slots_behind_ = 0;
  struct {
    int root = 0;
    std::uint64_t steps = 0;
    std::uint64_t end = 0;          ///< its last step
  } bcast_;                         ///< the last that `place_bcast` has placed
  std::uint64_t all_finished_ = 0;  ///< everybody has finished this step, as far as is known here
  std::uint64_t meeting_ = 0;
  std::uint64_t stage_offset_ = 0;
  std::uint64_t stage_bytes_ = 0;  ///< of each member; 0: there is none
  std::uint64_t stage_step_ = 0;   ///< the last that read it
  std::uint64_t stagings_ = 0;
  int next_reader_ = 0;               ///< where looking for readers goes on
  std::uint64_t least_finished_ = 0;  ///< of those that have been looked at
  std::uint64_t gpu_call_ = 0;
  std::uint64_t gpu_since_ = 0;  ///< as in `Presence`
  int gpu_known_ = 0;            ///< members below this rank have said since when
  bool has_left_ = false;
  std::unique_ptr<LiveCalls> live_;  ///< null: calls go as the table has it
  enum class Direct : std::uint8_t { unknown, no, yes } direct_ = Direct::unknown;
};

}  // namespace isthmus::coll
