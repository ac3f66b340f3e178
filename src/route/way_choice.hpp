#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "route/plan.hpp"

namespace isthmus {

/// The ways of a long message between memories of one host, of which the receiver takes one.
enum class LongWay : std::uint8_t { split, pull, stream };
inline constexpr std::size_t long_way_count = 3;
[[nodiscard]] constexpr Protocol protocol_of(LongWay way) noexcept {
  return way == LongWay::split ? Protocol::split : way == LongWay::pull ? Protocol::pull : Protocol::stream;
}

/// Whether a message of middling length goes with its envelope, which its sender decides.
enum class EagerWay : std::uint8_t { eager, rendezvous };
inline constexpr std::size_t eager_way_count = 2;
[[nodiscard]] constexpr std::string_view name_of(EagerWay way) noexcept {
  return way == EagerWay::eager ? "eager" : "rendezvous";
}

/// The ways of a message between ranks of one host that is in GPU memory at one side or both, of which the
/// receiver takes one.
enum class GpuWay : std::uint8_t {
  courier,        ///< by a kernel that waits for messages on the receiver's GPU
  push,           ///< by the sender's GPU
  pull,           ///< by the receiver's
  bounce,         ///< through GPU memory of the sender's library
  staged,         ///< through memory of the host
  staged_finely,  ///< the same in smaller chunks
};
inline constexpr std::size_t gpu_way_count = 6;
[[nodiscard]] constexpr Protocol protocol_of(GpuWay way) noexcept {
  constexpr std::array protocols{Protocol::gpu_courier, Protocol::gpu_push,   Protocol::gpu_pull,
                                 Protocol::gpu_bounce,  Protocol::gpu_staged, Protocol::gpu_staged};
  return protocols[static_cast<std::size_t>(way)];
}
/// For people and in tables.
inline constexpr std::array<std::string_view, gpu_way_count> gpu_way_names{
    "courier", "push", "pull", "bounce", "staged", "staged in small chunks"};
[[nodiscard]] constexpr std::string_view name_of(GpuWay way) noexcept {
  return gpu_way_names[static_cast<std::size_t>(way)];
}

/// Some of the ways of a message, and the one that its plan has first.
struct GpuWays {
  GpuWay assumed{};
  std::uint8_t bits = 0;

  constexpr void add(GpuWay way) noexcept {
    bits |= static_cast<std::uint8_t>(1U << static_cast<unsigned>(way));
  }
  [[nodiscard]] constexpr bool has(GpuWay way) const noexcept {
    return (bits >> static_cast<unsigned>(way) & 1U) != 0;
  }
  /// Whether there are two or more.
  [[nodiscard]] constexpr bool leave_a_choice() const noexcept { return (bits & (bits - 1U)) != 0; }
  friend bool operator==(const GpuWays&, const GpuWays&) = default;
};

/// Between which memories such a message goes, as far as what it takes depends on it.
enum class GpuRoute : std::uint8_t {
  same_gpu,
  nvlink,
  pcie,
  apart,          ///< GPUs that do not reach each other, or that no process sees both of
  nvlink_closed,  ///< memory that neither process can open
  pcie_closed,
  to_pinned,
  to_pageable,
  from_pinned,
  from_pageable,
};
inline constexpr std::size_t gpu_route_count = 10;
/// For people and in tables.
inline constexpr std::array<std::string_view, gpu_route_count> gpu_route_names{
    "within a GPU",
    "GPUs over NVLink",
    "GPUs over PCIe",
    "GPUs that do not reach each other",
    "GPUs over NVLink, memory that nobody can open",
    "GPUs over PCIe, memory that nobody can open",
    "a GPU to pinned memory",
    "a GPU to pageable memory",
    "pinned memory to a GPU",
    "pageable memory to a GPU"};
[[nodiscard]] constexpr std::string_view name_of(GpuRoute route) noexcept {
  return gpu_route_names[static_cast<std::size_t>(route)];
}

/// Which of some ways carries messages of one size class fastest, learned from the messages themselves.
/// `Way`: an enumeration of so many, without gaps.
///
/// Messages come in batches: one alone, or those that are under way at the same time. All of a batch go the
/// same way, and a batch is measured as one, because messages under way together finish in bunches.
///
/// The first messages go as the plan assumes, so that a job of a few is not experimented on. Then the ways
/// have their turns, a few messages at a time: what goes before a message decides what the caches hold, and a
/// load that comes and goes meets all ways alike. A way that is clearly slower than another has no further
/// turn. Then the fastest is taken, and every few hundred messages a few go another way: at most 2 % of them.
/// Where the chosen way has become slower than it was, all are tried again.
///
/// Costs are what the caller measures, in ticks. They may be wrong by a lot, because processors are taken
/// away: medians decide, and less than `worth_it` is noise.
template <class Way, std::size_t count_of_ways>
class BasicWayChoice {
 public:
  static constexpr std::uint32_t patience = 10;  ///< messages that go as assumed
  static constexpr std::uint32_t block = 5;      ///< messages of a turn, or one batch where that has more
  static constexpr std::uint32_t warm_up =
      1;  ///< of them, which do not count; they do in a batch of `long_batch`
  static constexpr std::uint32_t trial = 30;    ///< messages that a way has in a trial, at least
  static constexpr std::uint32_t retrial = 15;  ///< the same where the chosen way has become slow
  static constexpr std::uint32_t look = 8;      ///< messages that look whether another way has become better
  /// Messages of a batch that is a turn by itself, and counts: the first of so many is not worth a warm-up.
  static constexpr std::uint32_t long_batch = block;
  /// Of a batch as the last one was, the part that goes a way of which nothing is known yet, and its most
  /// messages. By what the rest takes, which goes the usual way, it is seen whether that way is out of the
  /// question. A smaller part would be lost in the noise of the rest. Whole batches cost too much where it is
  /// twice as slow: the first 60 messages of 16 MiB, four under way, took 1.5 times as long (Intel, 16
  /// cores).
  static constexpr std::uint32_t glimpse_of = 4;
  static constexpr std::uint32_t most_glimpsed = 16;
  /// In a batch of `whole_batch` a glimpse has half as many first: what is seldom worth a try costs half as
  /// much so. If they take up to so many times as long as usual, which may be noise, the next one has all.
  static constexpr double hopeless_of_half = 1.6;
  /// Of GPU memory more: what is measured ends with the receiver's part, and where its GPU reads, the sender
  /// is told later. 1 MiB over NVLink, whose GPUs copy alike, took up to 13 % longer than by fixed plans with
  /// 5 %, and up to 8 % with 15 %, there and back (2 x H200, trials included).
  static constexpr double worth_it = std::is_same_v<Way, GpuWay> ? 0.15 : 0.05;
  static constexpr double drifted = 1.3;   ///< times as slow as it was
  static constexpr double hopeless = 1.3;  ///< times as slow as the fastest: no further turn in this trial

  /// A way whose first batch of so many has taken so many times as long has no further turn either.
  static constexpr std::uint32_t whole_batch = 32;
  static constexpr double plainly_slow = 2;
  /// Of the messages that go as usual one in so many is measured: that shows drift soon enough, and costs
  /// nothing that can be seen.
  static constexpr std::uint32_t measured_of = 4;

  /// What a batch is good for.
  enum class Weight : std::uint8_t {
    none,     ///< need not be measured
    warning,  ///< the first of a turn: if short, it shows only whether the way is out of the question
    full,
  };
  /// How a batch is to go.
  struct Turn {
    Way way = Way{};
    Weight weight = Weight::none;
    /// So many of its first messages go that way; what follows goes the way that is chosen so far.
    std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  };
  /// How long it took.
  struct Cost {
    double ticks = 0;         ///< above 0: else a clock has jumped, and nothing is learned
    double passed = 0;        ///< ticks until it was over, where `ticks` are of work; else 0
    std::uint64_t bytes = 0;  ///< not 0
    std::uint32_t messages = 1;
    std::uint64_t other_bytes = 0;  ///< of `bytes`, what went the way that is chosen so far instead
  };
  /// What others have learned. It need not be true.
  struct Hint {
    Way way{};
    double ticks_per_byte = 0;
    bool is_tuned = false;  ///< by an earlier job
  };

  /// `possible` has `assumed`. With a hint that is possible the choice begins with that instead of a trial.
  /// `first`: messages that go as assumed.
  BasicWayChoice(Way assumed, std::span<const Way> possible, std::optional<Hint> hint = {},
                 std::uint32_t first = patience) noexcept;

  /// The turn of the batch that begins with the next message.
  Turn next() noexcept;
  /// The next message is one more of the last batch.
  void join() noexcept;
  /// A batch is over.
  void took(const Turn& turn, const Cost& cost) noexcept;

  [[nodiscard]] Way way() const noexcept { return way_; }
  [[nodiscard]] Way assumed() const noexcept { return assumed_; }
  /// Whether `way` has been chosen, and not just assumed.
  [[nodiscard]] bool is_settled() const noexcept { return phase_ == Phase::settled; }
  /// How many messages may go by the chosen way before `next` is to be called, where the first `skipped` of
  /// them that would be measured need not be.
  [[nodiscard]] std::uint32_t may_pass(std::uint32_t skipped) const noexcept {
    if (!is_settled() || is_looking_) return 0;
    const std::uint64_t until =
        is_seldom_measured() ? (0U - batches_) % measured_of + std::uint64_t{measured_of} * skipped : skipped;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(until_look_, until));
  }
  /// So many messages, `may_pass` at most, have gone so. How many of them would have been measured.
  std::uint32_t pass(std::uint32_t messages) noexcept {
    const std::uint32_t before = batches_;
    messages_ += messages;
    batches_ += messages;
    until_look_ -= std::min(until_look_, messages);
    if (!is_seldom_measured()) return messages;
    return (batches_ + measured_of - 1) / measured_of - (before + measured_of - 1) / measured_of;
  }
  /// Per byte, by the last trial; 0 where there was none.
  [[nodiscard]] double predicted(Way way) const noexcept { return known(way).predicted; }
  /// The same of the fastest quarter, for a way that is several: in turn, it has taken each of them.
  [[nodiscard]] double least_predicted(Way way) const noexcept { return known(way).least_predicted; }
  /// Per byte, of the messages since; 0 where there were none.
  [[nodiscard]] double measured(Way way) const noexcept { return known(way).median(); }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  /// It goes as the hint has it, which an earlier job has given.
  [[nodiscard]] bool is_tuned() const noexcept { return trials_ == 0 && hint_ && hint_->is_tuned; }
  /// How often a trial has ended.
  [[nodiscard]] std::uint32_t trials() const noexcept { return trials_; }

 private:
  enum class Phase : std::uint8_t { first, trial, settled };
  static constexpr std::uint32_t recent = 8;  ///< samples by which drift is seen

  /// What is known of a way.
  struct Known {
    static constexpr std::size_t capacity = 32;

    bool possible = false;
    bool abandoned = false;     ///< in this trial
    bool proven = false;        ///< in this trial a glimpse has shown that it is not out of the question
    bool unclear = false;       ///< a glimpse of half as many has left that open
    std::uint8_t failures = 0;  ///< glimpses in a row that have shown the opposite
    std::uint8_t strikes = 0;   ///< messages in a row that took far too long
    std::uint32_t samples = 0;  ///< since the last trial began, or ended
    std::uint32_t longest = 0;  ///< messages of the batch among these that has the most
    std::array<float, capacity> costs{};
    double predicted = 0;
    double least_predicted = 0;

    void add(double cost, std::uint32_t messages) noexcept {
      costs[samples++ % capacity] = static_cast<float>(cost);
      longest = std::max(longest, messages);
    }
    /// Of the last `most` samples, or the least of very few; 0 without any.
    [[nodiscard]] double median(std::size_t most = capacity) const noexcept;
    /// A quarter of all took no longer; 0 without any.
    [[nodiscard]] double lower_quartile() const noexcept;
    void forget() noexcept;
  };

  [[nodiscard]] Known& known(Way way) noexcept { return known_[static_cast<std::size_t>(way)]; }
  [[nodiscard]] const Known& known(Way way) const noexcept { return known_[static_cast<std::size_t>(way)]; }
  /// Messages that go a way of which nothing is known yet: the whole batch, where it is one.
  [[nodiscard]] std::uint32_t glimpse(const Known& of) const noexcept {
    const std::uint32_t all = std::clamp(last_batch_ / glimpse_of, 1U, most_glimpsed);
    return last_batch_ < whole_batch || of.unclear ? all : all / 2;
  }
  void begin_trial(std::uint32_t messages) noexcept;
  Turn next_of_trial() noexcept;
  void count_of_trial() noexcept;
  [[nodiscard]] bool is_decided() const noexcept;
  void settle() noexcept;
  void follow_hint() noexcept;
  /// Whether the messages of a batch that went another way left anything to learn.
  void glimpse_at(Known& of, const Cost& cost) noexcept;
  void drop_the_slow() noexcept;
  /// Of a way that nobody would have assumed all messages are measured, because it may depend on the sender.
  [[nodiscard]] bool is_seldom_measured() const noexcept { return way_ == assumed_; }
  Turn next_of_settled() noexcept;
  void judge_look() noexcept;
  void notice_drift() noexcept;
  void strike(Known& of, const Cost& cost) noexcept;
  void notice_passed(const Cost& cost) noexcept;
  [[nodiscard]] bool is_far_too_long(const Cost& cost) const noexcept;
  void fall_back() noexcept;

  std::array<Known, count_of_ways> known_{};
  Way way_;
  Way assumed_;
  Phase phase_ = Phase::first;
  std::uint32_t patience_;
  std::optional<Hint> hint_;
  std::uint64_t messages_ = 0;
  double usually_passed_ = 0;  ///< ticks a byte, by the assumed way; 0: not known, or work does not count
  std::uint32_t trials_ = 0;
  std::uint32_t batch_ = 0;  ///< messages of this batch so far
  std::uint32_t last_batch_ = 0;

  // A trial.
  std::array<Way, count_of_ways>
      ways_{};  ///< in the order of their turns; the other way round in each second round
  std::uint8_t way_count_ = 0;
  std::uint8_t turn_ = 0;  ///< in this round
  std::uint32_t round_ = 0;
  std::uint32_t in_turn_ = 0;  ///< messages of this turn so far
  std::uint32_t longest_turn_ = 0;
  std::uint32_t wanted_ = 0;  ///< messages that are still to go in it

  // Looks at other ways.
  Way looked_at_{1};
  std::uint32_t until_look_;  ///< messages
  std::uint32_t look_every_;
  std::uint32_t looking_ = 0;  ///< messages of this look so far
  bool is_looking_ = false;

  std::uint32_t early_looks_ = 0;    ///< that are still to come of those who follow a hint
  std::uint32_t batches_ = 0;        ///< since it has settled
  std::uint32_t since_settled_ = 0;  ///< samples of the chosen way
  std::uint32_t drift_patience_;     ///< samples before drift is believed
};

extern template class BasicWayChoice<LongWay, long_way_count>;
extern template class BasicWayChoice<EagerWay, eager_way_count>;
extern template class BasicWayChoice<GpuWay, gpu_way_count>;

/// What has been learned of a class, in the fields that reports of all plans have. `unit`: microseconds of a
/// message that takes a tick for each byte.
template <class Report, class Way, std::size_t count>
void fill_report(Report& report, const BasicWayChoice<Way, count>& choice, double unit) noexcept {
  report.told = choice.trials() == 0;
  report.tuned = choice.is_tuned();
  report.way = choice.way();
  report.assumed = choice.assumed();
  report.messages = choice.messages();
  report.ticks_per_byte = choice.predicted(report.way);
  for (std::size_t i = 0; i < count; ++i) {
    const auto way = static_cast<Way>(i);
    report.times[i] = {.predicted = choice.predicted(way) * unit, .measured = choice.measured(way) * unit};
  }
}

using WayChoice = BasicWayChoice<LongWay, long_way_count>;
using EagerChoice = BasicWayChoice<EagerWay, eager_way_count>;
using GpuChoice = BasicWayChoice<GpuWay, gpu_way_count>;

}  // namespace isthmus
