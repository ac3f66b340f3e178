#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

#include "base/error.hpp"
#include "coll/call/local.hpp"
#include "coll/select/select.hpp"
#include "coll/team/counted.hpp"
#include "coll/team/team.hpp"

namespace isthmus::coll {

/// One step of a team, from this member's side; finished at the latest when it goes out of scope.
class Step {
 public:
  /// What is compared with what the others say: `root` 0 and `bytes` 0 where members need not agree.
  Step(Team& team, Collective collective, int root, std::uint64_t bytes)
      : team_(team),
        number_(team.begin_step()),
        slot_number_(number_ - team.slots_behind()),
        call_(Call::of(static_cast<unsigned>(collective), root, bytes)),
        line_(team.area().line(number_, team.rank())) {}
  ~Step() {
    if (finished_) return;
    if (names_memory_ && std::uncaught_exceptions() != 0) [[unlikely]]
      leave();
    else
      team_.finish_step(number_);
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  /// Where up to `slot_bytes` of this member's contribution go, before `publish`.
  [[nodiscard]] std::byte* room(std::uint64_t bytes) const noexcept {
    return bytes <= Line::capacity ? line_.data.data() : slot(team_.rank());
  }
  /// A member's slot in this step, of `slot_bytes`. Nobody reads a slot of this step before it is written, so
  /// where one member alone writes, another's will do.
  [[nodiscard]] std::byte* slot(int rank) const noexcept { return team_.area().slot(slot_number_, rank); }
  void put(const Payload& payload) const {
    if (!payload.type) [[likely]]
      copy_bytes(room(payload.bytes), payload.data, payload.bytes);
    else
      pack(payload, room(payload.bytes));
  }
  /// An address in this process, for `heard_address`; up to six of them by `index`.
  void put_address(const void* address, std::size_t index = 0) noexcept {
    names_memory_ = true;
    put_number(reinterpret_cast<std::uint64_t>(address), index);
  }
  /// In the line, whatever lies in the slot; for `heard_number`.
  void put_number(std::uint64_t value, std::size_t index = 0) const noexcept {
    std::memcpy(line_.data.data() + index * sizeof value, &value, sizeof value);
  }

  /// Says it to whoever listens.
  void publish() const noexcept {
    publish_quietly();
    team_.notify_all();
  }
  /// Says it where only `rank` waits for it.
  void publish_to(int rank) const noexcept {
    publish_quietly();
    team_.notify(rank);
  }
  /// Says it where nobody sleeps for it.
  void publish_quietly() const noexcept {
    line_.call = call_;
    line_.sequence.store(number_, std::memory_order_release);
  }

  /// Waits until `rank` has said something; an error if that belongs to another call than this member's.
  Result<> hear(int rank) const {
    const Line& line = team_.area().line(number_, rank);
    if (!team_.wait([&] { return line.sequence.load(std::memory_order_acquire) == number_; })) [[unlikely]]
      return team_.loss();
    return check(rank);
  }
  /// Says it to all, each of whom calls `hear_all` after it.
  void announce() const noexcept {
    if (team_.size() <= flat_ranks) [[likely]]
      publish();
    else
      publish_quietly();  // who waits is told at the meeting
  }
  /// Waits until all others have announced theirs.
  Result<> hear_all() const;
  Result<> exchange() const {
    announce();
    return hear_all();
  }
  /// What `rank` put; after `hear` or `exchange`.
  [[nodiscard]] const std::byte* heard(int rank, std::uint64_t bytes) const noexcept {
    return bytes <= Line::capacity ? team_.area().line(number_, rank).data.data() : slot(rank);
  }
  /// This member alone has read `bytes` of what `rank` put, from `offset` on.
  void hand_back(int rank, std::uint64_t bytes, std::uint64_t offset = 0) const noexcept {
    if (bytes > Line::capacity) team_.hand_back(slot(rank) + offset, bytes);
  }
  [[nodiscard]] std::uint64_t heard_number(int rank, std::size_t index = 0) const noexcept {
    std::uint64_t value;
    std::memcpy(&value, team_.area().line(number_, rank).data.data() + index * sizeof value, sizeof value);
    return value;
  }
  [[nodiscard]] std::uint64_t heard_address(int rank, std::size_t index = 0) const noexcept {
    return heard_number(rank, index);
  }
  /// An error if `rank` is in another call. It must have published.
  Result<> check(int rank) const {
    const std::uint64_t theirs = team_.area().line(number_, rank).call;
    if (theirs == call_) [[likely]]
      return {};
    return mismatch(rank, theirs);
  }

  /// This member reads nothing any more that others have put or named in this step.
  void finish() noexcept {
    finished_ = true;
    team_.finish_step(number_);
  }
  /// The same, and waits until nobody else reads either: buffers that were named may be reused.
  void finish_together();
  /// The same for one member alone: the others only `finish`.
  void finish_last() {
    finish();
    team_.wait_until_all_finished(number_);
  }

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Which of all slots this step has: `Team::slots_behind`.
  [[nodiscard]] std::uint64_t slot_number() const noexcept { return slot_number_; }
  [[nodiscard]] Team& team() const noexcept { return team_; }

 private:
  [[nodiscard]] std::unexpected<Error> mismatch(int rank, std::uint64_t theirs) const;
  /// Memory has run out, and the caller takes its buffers back.
  void leave();

  Team& team_;
  const std::uint64_t number_;
  const std::uint64_t slot_number_;
  const std::uint64_t call_;
  Line& line_;
  bool finished_ = false;
  bool names_memory_ = false;
};

}  // namespace isthmus::coll
