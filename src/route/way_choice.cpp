#include "route/way_choice.hpp"

#include <algorithm>
#include <utility>

namespace isthmus {
namespace {

/// Messages from one look at another way to the next: 8 of 500 are 1.6 %. Twice as many after each look that
/// has found nothing.
constexpr std::uint32_t first_look = 500;
constexpr std::uint32_t rarest_look = 16'000;

/// Samples of the chosen way before drift is believed. Twice as many after each time that it was, until there
/// has been none for long.
constexpr std::uint32_t first_drift_patience = 8;
constexpr std::uint32_t longest_drift_patience = 4096;
constexpr std::uint32_t calm = 1000;

/// Where a batch is a turn, each way has at least so many.
constexpr std::uint32_t least_rounds = 2;

/// Between looks that take many messages, because as many are under way, there are so many times as many.
constexpr std::uint32_t between_looks = 60;

/// Of so few samples the least is taken: a processor that was taken away spoils one of two.
constexpr std::size_t few_samples = 3;

/// Three batches in a row that take so many times as long as by the chosen way, and so long, in ticks: 30 to
/// 100 us. Not noise: it may be a sender that computes, of whom this way needs more than the other.
constexpr double out_of_the_question = 8;
constexpr double out_of_the_question_ticks = 100'000;
constexpr std::uint8_t strikes_out = 3;

}  // namespace

double WayChoice::Known::median(std::size_t most) const noexcept {
  const std::size_t count = std::min({most, capacity, static_cast<std::size_t>(samples)});
  if (count == 0) return 0;
  std::array<float, capacity> last{};
  for (std::size_t i = 0; i < count; ++i)
    last[i] = costs[(samples - 1 - i) % capacity];
  const auto middle = last.begin() + static_cast<std::ptrdiff_t>(count <= few_samples ? 0 : (count - 1) / 2);
  std::nth_element(last.begin(), middle, last.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

void WayChoice::Known::forget() noexcept {
  samples = 0;
  strikes = 0;
  abandoned = false;
}

WayChoice::WayChoice(LongWay assumed, std::span<const LongWay> possible) noexcept
    : way_(assumed),
      assumed_(assumed),
      until_look_(first_look),
      look_every_(first_look),
      drift_patience_(first_drift_patience) {
  for (const LongWay way : possible)
    known(way).possible = true;
}

WayChoice::Turn WayChoice::next() noexcept {
  ++messages_;
  switch (phase_) {
    case Phase::first:
      if (messages_ <= patience) return {way_, Weight::none};
      begin_trial(trial);
      return next_of_trial();
    case Phase::trial:
      return next_of_trial();
    case Phase::settled:
      break;
  }
  return next_of_settled();
}

void WayChoice::begin_trial(std::uint32_t messages) noexcept {
  phase_ = Phase::trial;
  turn_ = 0;
  round_ = 0;
  in_turn_ = longest_turn_ = 0;
  is_looking_ = false;
  way_count_ = 0;
  ways_[way_count_++] = way_;
  for (std::size_t i = 0; i < long_way_count; ++i)
    if (known_[i].possible && static_cast<LongWay>(i) != way_) ways_[way_count_++] = static_cast<LongWay>(i);
  wanted_ = messages * way_count_;
  for (Known& each : known_)
    each.forget();
}

WayChoice::Turn WayChoice::next_of_trial() noexcept {
  for (;;) {
    if (turn_ == way_count_) {
      turn_ = 0;
      if (++round_ >= least_rounds && wanted_ == 0) {
        settle();
        return {way_, Weight::none};
      }
    }
    const LongWay way = ways_[round_ % 2 == 0 ? turn_ : way_count_ - 1 - turn_];
    if (in_turn_ < block && !known(way).abandoned) {
      count_of_trial();
      return {way, in_turn_ <= warm_up ? Weight::warning : Weight::full};
    }
    // Those that it would have had count as gone.
    wanted_ -= std::min(wanted_, block - std::min(block, in_turn_));
    longest_turn_ = std::max(longest_turn_, std::exchange(in_turn_, 0));
    ++turn_;
  }
}

void WayChoice::count_of_trial() noexcept {
  ++in_turn_;
  if (wanted_ > 0) --wanted_;
}

void WayChoice::settle() noexcept {
  const LongWay before = way_;
  double least = known(way_).median() * (1 - worth_it);
  for (std::size_t i = 0; i < long_way_count; ++i) {
    Known& each = known_[i];
    each.predicted = each.abandoned ? 0 : each.median();
    if (static_cast<LongWay>(i) != before && each.predicted > 0 && (each.predicted < least || least == 0)) {
      least = each.predicted;
      way_ = static_cast<LongWay>(i);
    }
  }
  for (Known& each : known_)
    each.forget();
  since_settled_ = 0;
  until_look_ = std::max(look_every_, between_looks * longest_turn_);
  phase_ = Phase::settled;
}

void WayChoice::join() noexcept {
  ++messages_;
  if (phase_ == Phase::trial)
    count_of_trial();
  else if (is_looking_)
    ++looking_;
  else if (until_look_ > 0)
    --until_look_;
}

WayChoice::Turn WayChoice::next_of_settled() noexcept {
  if (!is_looking_ && until_look_ > 0) {
    --until_look_;
    // One in four is measured: that shows drift soon enough, and costs nothing that can be seen.
    return {way_, batches_++ % 4 == 0 ? Weight::full : Weight::none};
  }
  if (!is_looking_) {
    do
      looked_at_ = static_cast<LongWay>((static_cast<std::size_t>(looked_at_) + 1) % long_way_count);
    while (!known(looked_at_).possible || looked_at_ == way_);
    known(looked_at_).forget();
    is_looking_ = true;
    looking_ = 0;
  }
  if (looking_ < look && !known(looked_at_).abandoned)
    return {looked_at_, looking_++ < look / 4 ? Weight::warning : Weight::full};
  judge_look();
  return {way_, Weight::none};
}

void WayChoice::judge_look() noexcept {
  const double other = known(looked_at_).abandoned ? 0 : known(looked_at_).median();
  const double own = known(way_).median(recent);
  is_looking_ = false;
  if (other > 0 && own > 0 && other < own * (1 - worth_it)) {
    look_every_ = first_look;
    return begin_trial(trial);
  }
  look_every_ = std::min(look_every_ * 2, rarest_look);
  until_look_ = std::max(look_every_, between_looks * looking_);
}

void WayChoice::took(const Turn& turn, const Cost& cost) noexcept {
  Known& of = known(turn.way);
  if (turn.way != way_) strike(of, cost);
  if (turn.weight == Weight::none || (turn.weight == Weight::warning && cost.messages < long_batch)) return;
  of.add(cost.ticks / static_cast<double>(cost.bytes));
  if (phase_ == Phase::settled && turn.way == way_) notice_drift();
}

/// Of a way that is being tried.
void WayChoice::strike(Known& of, const Cost& cost) noexcept {
  const double own = phase_ == Phase::settled ? known(way_).predicted : known(way_).median();
  const bool is_far_too_long = own > 0 && cost.ticks > out_of_the_question_ticks &&
                               cost.ticks > out_of_the_question * own * static_cast<double>(cost.bytes);
  of.strikes = static_cast<std::uint8_t>(is_far_too_long ? of.strikes + 1 : 0);
  if (of.strikes >= strikes_out) of.abandoned = true;
}

void WayChoice::notice_drift() noexcept {
  const double before = known(way_).predicted;
  if (++since_settled_ == calm) drift_patience_ = first_drift_patience;
  if (since_settled_ < drift_patience_ || since_settled_ % (recent / 2) != 0 || before == 0) return;
  if (known(way_).median(recent) <= drifted * before) return;
  drift_patience_ = std::min(drift_patience_ * 2, longest_drift_patience);
  begin_trial(retrial);
}

}  // namespace isthmus
