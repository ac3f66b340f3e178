#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/copy.hpp"
#include "coll/call/local.hpp"
#include "coll/lanes/lane_team.hpp"
#include "coll/select/mismatch.hpp"
#include "coll/select/select.hpp"

namespace isthmus::coll {

/// That nobody reads any more what this member has said `depth` steps before `place`. To be awaited.
/// `given_up` becomes true where that will never be so, because the communicator is broken.
class Vacant final : public Awaited {
 public:
  Vacant(const Place& place, std::uint64_t depth, bool& given_up) noexcept
      : Awaited(true), place_(place), depth_(depth), given_up_(given_up) {}
  bool begin() noexcept {
    if (is_complete()) [[likely]]
      return true;
    // Announced before the look that decides to sleep: see `LaneTeam::finish`.
    waits_ = true;
    place_.team().count_waiting(1);
    return is_complete();
  }
  [[nodiscard]] Driver* driver() const noexcept { return place_.driver(); }
  [[nodiscard]] bool is_complete() const noexcept override { return is_free() || place_.team().is_broken(); }
  [[gnu::always_inline]] Result<> end() {
    if (waits_) [[unlikely]]
      place_.team().count_waiting(-1);
    if (is_free()) [[likely]]
      return {};
    given_up_ = true;
    return place_.team().loss();
  }

 private:
  [[nodiscard]] bool is_free() const noexcept { return place_.stripe().is_free(place_.step(), depth_); }

  const Place& place_;
  const std::uint64_t depth_;
  bool& given_up_;
  bool waits_ = false;
};

/// That the calling thread need not do what comes next, which takes long: a progress thread with a core of
/// its own does it while the program computes, or whoever waits. Where there is none, the caller goes on.
/// Between two ranks the one that came second did all of its part before its call had returned: a sum of 1
/// MiB was hidden to 52 % (H100 host, Intel, spare cores).
class HandedOver final : public Awaited {
 public:
  /// What is shorter is done sooner than another thread has seen it.
  static constexpr std::uint64_t least_bytes = std::uint64_t{64} * 1024;

  HandedOver(const Place& place, std::uint64_t bytes) noexcept : place_(place), bytes_(bytes) {}
  [[nodiscard]] bool begin() const noexcept {
    return bytes_ < least_bytes || !place_.team().engine().has_helping_core();
  }
  [[nodiscard]] Driver* driver() const noexcept { return place_.driver(); }
  [[nodiscard]] bool is_complete() const noexcept override { return true; }
  [[nodiscard]] static Result<> end() noexcept { return {}; }

 private:
  const Place& place_;
  const std::uint64_t bytes_;
};

/// Where members are too many for all to look at all: who speaks for whom. Neighbours in rank, so that
/// operands keep their order.
struct Neighbors {
  int first;  ///< it speaks for them
  int last;
  int last_speaker;  ///< of all members; speakers are `flat_ranks` apart

  Neighbors(int rank, int size) noexcept
      : first(rank - rank % flat_ranks),
        last(std::min(first + flat_ranks, size) - 1),
        last_speaker((size - 1) - (size - 1) % flat_ranks) {}
};

/// Two members whose calls do not fit together, as one tells that has heard both.
struct Differing {
  struct Member {
    std::uint64_t rank;
    std::uint64_t call;
  };
  Member one, other;
};
static_assert(sizeof(Differing) <= Line::capacity);

/// One step of a stripe as a flow sees it: what `Step` is to a blocking collective, with things to await
/// where that waits. Finished at the latest when it goes out of scope.
///
///     Round round(std::move(place), Collective::allreduce, 0, bytes, bytes);
///     co_await round.vacant();
///     if (round.is_over()) co_return;
///     round.put(mine);
///     round.publish();
///     co_await round.hear_all();
///     if (!round.is_over()) ...
///
/// Must not move while it is awaited.
class Round {
 public:
  /// `root` and `agreed` are compared with what the others say, 0 where members need not agree. `room`: the
  /// most bytes that any member puts.
  Round(Place&& place, Collective collective, int root, std::uint64_t agreed, std::uint64_t room) noexcept
      : place_(std::move(place)),
        call_(Call::of(static_cast<unsigned>(collective), root, agreed)),
        depth_(room > short_slot_bytes ? long_depth : memory().depth),
        lines_(memory().lines_of(place_.step())),
        line_(lines_[place_.team().rank()]) {}
  [[gnu::always_inline]] ~Round() {
    if (is_finished_) [[unlikely]]
      place_.forget();
  }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  [[nodiscard]] LaneTeam& team() const noexcept { return place_.team(); }

  class Hear;
  /// That the line and slot of this member are free for it.
  [[nodiscard]] Vacant vacant() noexcept { return {place_, depth_, is_over_}; }
  /// Before so many bytes are copied or combined.
  [[nodiscard]] HandedOver hand_over(std::uint64_t bytes) const noexcept { return {place_, bytes}; }
  /// That all others, or one, have said something; an error if that belongs to another call than this
  /// member's.
  [[nodiscard]] Hear hear_all() noexcept;
  [[nodiscard]] Hear hear(int rank) noexcept;
  [[nodiscard]] Hear hear_below(int rank) noexcept;
  /// That those whom this member speaks for have said something, or all who speak for others.
  [[nodiscard]] Hear hear_neighbors(const Neighbors& neighbors) noexcept;
  [[nodiscard]] Hear hear_speakers(const Neighbors& neighbors) noexcept;
  /// That all others, or one, have come to `phase`, or are through.
  [[nodiscard]] Hear reach_all(std::uint64_t phase) noexcept;
  class Leave;
  /// After the last wait of a round in which a member has named memory: that nobody uses that any more.
  /// Others may not know yet why the communicator is broken, and be about to.
  [[nodiscard]] Leave leave() noexcept;
  /// Whether nothing more can come of it: another member is in another call, or one is lost.
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }

  /// Where up to `slot_bytes` of this member's part go, before `publish`.
  [[nodiscard]] std::byte* room(std::uint64_t bytes) const noexcept {
    return bytes <= Line::capacity ? line_.data.data() : memory().slot(place_.step(), team().rank(), bytes);
  }
  void put(const Payload& payload) const {
    if (!payload.type) [[likely]]
      copy_bytes(room(payload.bytes), payload.data, payload.bytes);
    else
      pack(payload, room(payload.bytes));
  }
  void put_address(const void* address, std::size_t index = 0) const noexcept {
    const auto value = reinterpret_cast<std::uint64_t>(address);
    std::memcpy(line_.data.data() + index * sizeof value, &value, sizeof value);
  }

  /// Says it to whoever listens, to one, or where nobody sleeps for it.
  void publish() const noexcept {
    publish_quietly();
    team().notify_all();
  }
  void publish_to(int rank) const noexcept {
    publish_quietly();
    team().notify(rank);
  }
  void publish_quietly() const noexcept {
    line_.call = call_;
    line_.sequence.store(said(place_.step(), 1), std::memory_order_release);
  }
  /// For who speaks for others, when the round is over because of a call that does not fit: who listens to
  /// this member is told, and does not wait for what it would have said.
  void pass_on_difference() const noexcept {
    if (differing_rank_ < 0) return;
    const Differing differing{
        .one = {.rank = static_cast<unsigned>(team().rank()), .call = call_},
        .other = {.rank = static_cast<unsigned>(differing_rank_), .call = differing_call_}};
    std::memcpy(line_.data.data(), &differing, sizeof differing);
    line_.call = Call::differing;
    line_.sequence.store(said(place_.step(), 1), std::memory_order_release);
    team().notify_all();
  }
  /// Has come to `phase`, 2 or later.
  void advance(std::uint64_t phase) const noexcept {
    line_.sequence.store(said(place_.step(), phase), std::memory_order_release);
    team().notify_all();
  }

  /// What `rank` put; after it has been heard.
  [[nodiscard]] const std::byte* heard(int rank, std::uint64_t bytes) const noexcept {
    return bytes <= Line::capacity ? line(rank).data.data() : memory().slot(place_.step(), rank, bytes);
  }
  /// This member alone has read `bytes` of what `rank` put.
  void hand_back(int rank, std::uint64_t bytes) const noexcept {
    if (bytes > Line::capacity && team().hands_back())
      hand_back_lines(memory().slot(place_.step(), rank, bytes), bytes);
  }
  [[nodiscard]] std::uint64_t heard_address(int rank, std::size_t index = 0) const noexcept {
    std::uint64_t value;
    std::memcpy(&value, line(rank).data.data() + index * sizeof value, sizeof value);
    return value;
  }
  /// Words of a member's line that all write: after `put_word` and `hear`.
  void put_word(std::size_t index, std::uint64_t value) const noexcept {
    std::memcpy(line_.data.data() + index * sizeof value, &value, sizeof value);
  }
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(int rank, std::size_t index) const noexcept {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(line(rank).data.data() + index * 8));
  }
  [[nodiscard]] Driver* driver() const noexcept { return place_.driver(); }

 private:
  [[nodiscard]] const StripeMemory& memory() const noexcept { return place_.stripe().memory(); }
  [[nodiscard]] Line& line(int rank) const noexcept { return lines_[rank]; }

  /// Whether a member that lives has said something in this step and not finished it.
  [[nodiscard]] bool is_in(int rank) const noexcept {
    const std::uint64_t sequence = line(rank).sequence.load(std::memory_order_acquire);
    return sequence >= said(place_.step(), 1) && sequence <= said(place_.step(), last_phase) &&
           !place_.stripe().has_finished(rank, place_.step()) && !team().is_lost(rank);
  }
  void take_back() noexcept;

  Place place_;
  const std::uint64_t call_;
  const std::uint64_t depth_;
  Line* const lines_;  ///< of this step, by rank
  Line& line_;
  bool is_over_ = false;
  bool is_finished_ = false;
  int differing_rank_ = -1;  ///< who has said another call
  std::uint64_t differing_call_ = 0;
};

class Round::Hear final : public Awaited {
 public:
  /// Each `apart`-th of the ranks [first, last), this one left out.
  Hear(Round& round, int first, int last, std::uint64_t phase, int apart = 1) noexcept
      : Awaited(true),
        round_(round),
        phase_(phase),
        first_(first),
        last_(last),
        apart_(apart),
        next_(first) {}
  [[nodiscard]] bool begin() const noexcept { return is_complete(); }
  [[nodiscard]] Driver* driver() const noexcept { return round_.driver(); }
  [[nodiscard]] bool is_complete() const noexcept override {
    return have_come() || round_.team().is_broken();
  }
  [[gnu::always_inline]] Result<> end() {
    if (!have_come()) [[unlikely]] {
      round_.is_over_ = true;
      return round_.team().loss();
    }
    if (phase_ > 1) return {};
    for (int i = first_; i < last_; i += apart_)
      if (i != round_.team().rank() && round_.line(i).call != round_.call_) [[unlikely]]
        return differs(i);
    return {};
  }

 private:
  [[nodiscard]] bool have_come() const noexcept {
    for (; next_ < last_; next_ += apart_)
      if (next_ != round_.team().rank() && !has_come(next_)) return false;
    return true;
  }
  /// Whose call is another one, and who has an error, does not come to later phases, but finishes.
  [[nodiscard]] bool has_come(int rank) const noexcept {
    const Place& place = round_.place_;
    if (round_.line(rank).sequence.load(std::memory_order_acquire) >= said(place.step(), phase_)) return true;
    return phase_ > 1 && place.stripe().has_finished(rank, place.step());
  }
  [[gnu::cold]] std::unexpected<Error> differs(int rank) const;

  Round& round_;
  const std::uint64_t phase_;
  const int first_, last_, apart_;
  mutable int next_;  ///< all before it have come
};

/// Takes back this member's line and waits for those who have read it, as `Team::leave` does.
class Round::Leave final : public Awaited {
 public:
  explicit Leave(Round& round) noexcept : Awaited(true), round_(round) {}
  [[nodiscard]] bool begin() noexcept {
    if (!round_.team().is_broken()) [[likely]]
      return true;
    round_.take_back();
    waits_ = true;
    round_.team().count_waiting(1);
    return is_complete();
  }
  [[nodiscard]] Driver* driver() const noexcept { return round_.driver(); }
  [[nodiscard]] bool is_complete() const noexcept override {
    for (; next_ < round_.team().size(); ++next_)
      if (next_ != round_.team().rank() && round_.is_in(next_)) return false;
    return true;
  }
  Result<> end() noexcept {
    if (waits_) [[unlikely]]
      round_.team().count_waiting(-1);
    return {};
  }

 private:
  Round& round_;
  bool waits_ = false;
  mutable int next_ = 0;  ///< all before it are out of it
};

inline Round::Leave Round::leave() noexcept {
  return Leave(*this);
}
inline Round::Hear Round::hear_all() noexcept {
  return {*this, 0, team().size(), 1};
}
inline Round::Hear Round::hear(int rank) noexcept {
  return {*this, rank, rank + 1, 1};
}
inline Round::Hear Round::hear_below(int rank) noexcept {
  return {*this, 0, rank, 1};
}
inline Round::Hear Round::hear_neighbors(const Neighbors& neighbors) noexcept {
  return {*this, neighbors.first, neighbors.last + 1, 1};
}
inline Round::Hear Round::hear_speakers(const Neighbors& neighbors) noexcept {
  return {*this, 0, neighbors.last_speaker + 1, 1, flat_ranks};
}
inline Round::Hear Round::reach_all(std::uint64_t phase) noexcept {
  return {*this, 0, team().size(), phase};
}

}  // namespace isthmus::coll
