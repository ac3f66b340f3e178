#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "coll/select/team_way.hpp"

namespace isthmus::coll {

/// How the calls of one class go from some step of the team on; one word, which rank 0 writes and all members
/// read. First the ways of `tried` have a turn of so many calls each, then all calls go as `after` says. As a
/// word of 0: all go as the table has it.
struct CallSchedule {
  /// In words of 64 bits: of a call's first step, the lower half.
  std::uint32_t from = 0;
  std::optional<TeamWay> before, after;  ///< none: as the table has it
  std::uint8_t turn = 0;                 ///< calls, up to `longest_turn`; 0 without `tried`
  TeamWays tried;
  bool reversed = false;  ///< the last of `tried` comes first
  /// Calls that `TeamWay::messages` has before its turn, up to `longest_turn`: in these, messages learn their
  /// own way.
  std::uint8_t settling = 0;

  static constexpr std::uint8_t longest_turn = 63;
  static constexpr std::uint32_t warm_up = 1;  ///< calls of each turn that do not count

  /// Calls in turns.
  [[nodiscard]] std::uint32_t calls() const noexcept { return turn * tried.count() + settles(); }
  /// Whether a call that begins with `step` belongs to it.
  [[nodiscard]] bool has_begun(std::uint32_t step) const noexcept {
    return static_cast<std::int32_t>(step - from) >= 0;
  }
  /// A call in turns: its way, and how many have gone that way in this turn before it.
  struct Turn {
    TeamWay way{};
    std::uint32_t place = 0;
    /// The first of a turn pay for what it takes to begin.
    bool counts = false;
  };
  /// Of the `index`-th call in turns, which is below `calls()`.
  [[nodiscard]] Turn turn_at(std::uint32_t index) const noexcept;
  [[nodiscard]] TeamWay way_at(std::uint32_t index) const noexcept { return turn_at(index).way; }

  [[nodiscard]] std::uint64_t packed() const noexcept;
  static CallSchedule of(std::uint64_t word) noexcept;
  friend bool operator==(const CallSchedule&, const CallSchedule&) = default;

 private:
  [[nodiscard]] std::uint32_t settles() const noexcept { return tried.has(TeamWay::messages) ? settling : 0; }
};

/// Calls that `TeamWay::messages` has in the first trial before it is judged, as in `CallSchedule`.
struct CallSettling {
  std::uint8_t calls = 0;
  /// They come before its second turn, which it has if it is not `CallChoice::hopeless_unlearned` in the
  /// first one. Otherwise they come before the first one.
  bool is_late = false;
};

/// Which of some ways carries out the calls of one class fastest, learned from the calls: what rank 0 of a
/// team thinks of it.
///
/// The first calls go as the table has it, so that a program of a few is not experimented on. Then each way
/// has a short turn; those that are near the fastest have another, longer one. Then the fastest is taken, if
/// it gains `worth_it`, and every few hundred calls a few go another way: at most 2 % of them. Where the
/// chosen way has become slower than it was, all are tried again.
///
/// Costs are what the caller measures, in ticks. They may be wrong by a lot, because processors are taken
/// away: medians decide.
class CallChoice {
 public:
  static constexpr std::uint32_t patience = 10;   ///< calls that go as the table has it
  static constexpr std::uint8_t first_turn = 4;   ///< calls of a way's first turn
  static constexpr std::uint8_t second_turn = 7;  ///< of the second one, and of two that look alike
  static constexpr std::uint32_t warm_up = CallSchedule::warm_up;
  static constexpr std::uint32_t finalists = 3;  ///< ways that have a second turn, at most
  static constexpr double worth_it = 0.05;
  static constexpr double drifted = 1.3;   ///< times as slow as it was
  static constexpr double hopeless = 1.3;  ///< times as slow as the fastest: no second turn
  /// The same of messages that have not learned their own way yet, which makes long ones up to 2.5 times as
  /// fast.
  static constexpr double hopeless_unlearned = 2;
  /// Where messages still learn in their first turn, they have so many more calls, and another turn; for as
  /// long as they do, but not more often than that. Whether they go with their envelope each sender learns
  /// from 180 of them, and in a call whose root moves each has its share.
  static constexpr std::uint8_t more_settling = 60;
  static constexpr std::uint32_t most_settling = 8;
  /// Calls from one look at another way to the next; twice as many after each that has found nothing.
  static constexpr std::uint32_t first_look = 600;
  static constexpr std::uint32_t rarest_look = 16'000;
  /// Whoever follows a hint looks sooner: others' calls may be others.
  static constexpr std::uint32_t first_look_of_hint = 250;

  struct Hint {
    TeamWay way{};
    double ticks_per_byte = 0;
    bool is_tuned = false;  ///< by an earlier job
  };

  /// `possible` has `assumed`, and another one. `lead`: what is said to all takes effect so many steps later,
  /// and so many calls after a turn its costs are known. `begins_after`: calls that go as the table has it.
  CallChoice(TeamWay assumed, TeamWays possible, std::uint32_t lead, std::optional<Hint> hint = {},
             std::uint32_t begins_after = patience, CallSettling settling = {}) noexcept;

  /// Another call begins, with `step` as its first one: what is to be said to all before it, mostly nothing.
  /// A call may come behind one of a later step, which is less than `lead` away.
  std::optional<CallSchedule> next(std::uint32_t step) noexcept {
    // One that is far ahead may as well be the first of all, or the first for long: numbers wrap.
    if (latest_ - step >= lead_) latest_ = step;
    count_in_schedule(step);
    ++calls_;
    if (calls_ < due_) [[likely]]
      return std::nullopt;
    return decide(step);
  }
  /// The step with which what has been said last takes effect: a call's place in turns is one in those.
  [[nodiscard]] std::uint32_t said_from() const noexcept { return said_.from; }
  /// A call has been measured, whose place in the turns said last was `index`; none for calls behind them.
  /// `is_learning`: messages of it have not settled on their own way.
  void took(TeamWay way, std::optional<std::uint32_t> index, double ticks_per_byte,
            bool is_learning = false) noexcept;

  [[nodiscard]] TeamWay way() const noexcept { return way_; }
  [[nodiscard]] TeamWay assumed() const noexcept { return assumed_; }
  [[nodiscard]] TeamWays possible() const noexcept { return possible_; }
  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
  /// How often a trial has ended; 0 with a hint that has been followed so far.
  [[nodiscard]] std::uint32_t trials() const noexcept { return trials_; }
  [[nodiscard]] bool is_settled() const noexcept { return trials_ > 0 || is_told_; }
  [[nodiscard]] bool is_told() const noexcept { return trials_ == 0 && is_told_; }
  [[nodiscard]] bool is_tuned() const noexcept { return is_told() && hint_->is_tuned; }
  /// Calls that went another way than the chosen one, to see what it takes.
  [[nodiscard]] std::uint64_t explored() const noexcept { return explored_; }
  /// Per byte, by the last trial; 0 where there was none.
  [[nodiscard]] double predicted(TeamWay way) const noexcept { return known(way).predicted; }
  /// Per byte, of the calls since; 0 where there were none.
  [[nodiscard]] double measured(TeamWay way) const noexcept { return known(way).median(); }

 private:
  enum class Phase : std::uint8_t { first, first_turns, second_turns, settled, looking };
  static constexpr std::uint32_t recent = 4;  ///< samples by which drift is seen

  struct Known {
    static constexpr std::size_t capacity = 16;

    std::uint32_t samples = 0;  ///< since the last trial began, or ended
    std::array<float, capacity> costs{};
    double predicted = 0;

    void add(double cost) noexcept { costs[samples++ % capacity] = static_cast<float>(cost); }
    /// Of the last `most` samples; 0 without any.
    [[nodiscard]] double median(std::size_t most = capacity) const noexcept;
  };

  [[nodiscard]] Known& known(TeamWay way) noexcept { return known_[static_cast<std::size_t>(way)]; }
  [[nodiscard]] const Known& known(TeamWay way) const noexcept {
    return known_[static_cast<std::size_t>(way)];
  }
  void count_in_schedule(std::uint32_t step) noexcept;
  std::optional<CallSchedule> decide(std::uint32_t step) noexcept;
  /// Says that from now on all go `after`, behind turns of `tried`.
  CallSchedule say(std::uint32_t step, TeamWay after, TeamWays tried = {}, std::uint8_t turn = 0,
                   bool reversed = false, std::uint8_t settling = 0) noexcept;
  CallSchedule begin_trial(std::uint32_t step) noexcept;
  std::optional<CallSchedule> judge_first(std::uint32_t step) noexcept;
  [[nodiscard]] TeamWays rivals_of(double least) const noexcept;
  /// Messages have had a turn, and have not learned their own way.
  [[nodiscard]] bool are_unlearned(double least) const noexcept;
  /// They have had a turn, and not settled in it.
  [[nodiscard]] bool are_to_settle(double least) const noexcept;
  std::optional<CallSchedule> settle(std::uint32_t step) noexcept;
  CallSchedule look(std::uint32_t step) noexcept;
  std::optional<CallSchedule> judge_look(std::uint32_t step) noexcept;
  void notice_drift() noexcept;
  void forget_all() noexcept;
  /// The fastest of those that have been measured; `way_` without any.
  [[nodiscard]] TeamWay fastest() const noexcept;

  static constexpr std::uint64_t never = ~std::uint64_t{0};

  std::array<Known, team_way_count> known_{};
  TeamWay way_, assumed_;
  TeamWays possible_;
  std::uint32_t lead_;
  CallSettling settling_;
  std::optional<Hint> hint_;
  Phase phase_ = Phase::first;
  bool is_told_ = false;
  bool has_drifted_ = false;
  bool are_learning_ = false;    ///< messages, in the turns that have been said last
  std::uint32_t settlings_ = 0;  ///< how often they have had `more_settling`
  std::uint64_t calls_ = 0;      ///< that have begun
  std::uint64_t due_ = 0;        ///< the number of the call before which there is something to decide
  std::uint64_t explored_ = 0;
  std::uint32_t trials_ = 0;
  std::uint32_t until_look_ = first_look;  ///< calls
  std::uint64_t next_look_ = 0;            ///< the number of the call before which it begins
  std::uint32_t looks_of_hint_ = 0;
  TeamWay looked_at_;

  std::uint32_t latest_ = 0;  ///< of the steps so far

  // What has been said last.
  CallSchedule said_;
  bool is_under_way_ = false;   ///< some calls still go by what was before it, or by its turns
  std::uint32_t in_turns_ = 0;  ///< calls of its turns that have begun
  std::uint32_t ended_at_ = 0;  ///< a step behind them
  bool has_ended_ = false;      ///< its turns have

  std::uint32_t since_settled_ = 0;  ///< samples of the chosen way
  std::uint32_t drift_patience_;     ///< samples before drift is believed
};

}  // namespace isthmus::coll
