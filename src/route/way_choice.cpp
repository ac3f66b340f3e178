#include "route/way_choice.hpp"

#include <algorithm>
#include <utility>

namespace isthmus {
namespace {

/// Messages from one look at another way to the next: 8 of 500 are 1.6 %. Twice as many after each look that
/// has found nothing.
constexpr std::uint32_t first_look = 500;
constexpr std::uint32_t rarest_look = 16'000;

/// Whoever follows a hint looks sooner: others' messages may be others.
constexpr std::uint32_t first_look_of_hint = 100;
constexpr std::uint32_t between_early_looks = 12;

/// Samples of the chosen way before drift is believed. Twice as many after each time that it was, until there
/// has been none for long.
constexpr std::uint32_t first_drift_patience = 8;
constexpr std::uint32_t longest_drift_patience = 4096;
constexpr std::uint32_t calm = 1000;

/// Where a batch is a turn, each way has at least so many.
constexpr std::uint32_t least_rounds = 2;

/// A trial goes on where a way has not had that many, but not for longer than this.
constexpr std::uint32_t most_rounds = 12;

/// Glimpses in a row that rule a way out: a processor that was taken away spoils one.
constexpr std::uint8_t glimpses_out = 2;

/// Between looks that take many messages, because as many are under way, there are so many times as many.
constexpr std::uint32_t between_looks = 60;

/// Of so few samples the least is taken: a processor that was taken away spoils one of two.
constexpr std::size_t few_samples = 3;

/// So many make a way hopeless: a turn of messages that come one at a time. The one that is chosen so far has
/// two turns: a load that came in between would make others look better.
constexpr std::uint32_t enough_to_drop = WayChoice::block - WayChoice::warm_up;

/// Three batches in a row that take so many times as long as by the chosen way, and so long, in ticks: 30 to
/// 100 us. Not noise: it may be a sender that computes, of whom this way needs more than the other.
constexpr double out_of_the_question = 8;
constexpr double out_of_the_question_ticks = 100'000;
constexpr std::uint8_t strikes_out = 3;

/// The same where ranks share cores, 0.3 to 1 ms: a rank that computes has its core for as long, and one that
/// has waited for it is late by any way.
constexpr double out_of_the_question_shared_ticks = 1'000'000;
/// The last of so many decide what is usual.
constexpr double usual_of = 8;

}  // namespace

template <class Way, std::size_t count_of_ways>
double BasicWayChoice<Way, count_of_ways>::Known::median(std::size_t most) const noexcept {
  const std::size_t count = std::min({most, capacity, static_cast<std::size_t>(samples)});
  if (count == 0) return 0;
  std::array<float, capacity> last{};
  for (std::size_t i = 0; i < count; ++i)
    last[i] = costs[(samples - 1 - i) % capacity];
  const auto middle = last.begin() + static_cast<std::ptrdiff_t>(count <= few_samples ? 0 : (count - 1) / 2);
  std::nth_element(last.begin(), middle, last.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

template <class Way, std::size_t count_of_ways>
double BasicWayChoice<Way, count_of_ways>::Known::lower_quartile() const noexcept {
  const std::size_t count = std::min(capacity, static_cast<std::size_t>(samples));
  if (count == 0) return 0;
  std::array<float, capacity> all = costs;
  const auto found = all.begin() + static_cast<std::ptrdiff_t>((count - 1) / 4);
  std::nth_element(all.begin(), found, all.begin() + static_cast<std::ptrdiff_t>(count));
  return *found;
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::Known::forget() noexcept {
  samples = 0;
  longest = 0;
  strikes = 0;
  abandoned = false;
  proven = false;
  unclear = false;
  failures = 0;
}

template <class Way, std::size_t count_of_ways>
BasicWayChoice<Way, count_of_ways>::BasicWayChoice(Way assumed, std::span<const Way> possible,
                                                   std::optional<Hint> hint, std::uint32_t first) noexcept
    : way_(assumed),
      assumed_(assumed),
      patience_(first),
      hint_(hint),
      until_look_(first_look),
      look_every_(first_look),
      drift_patience_(first_drift_patience) {
  for (const Way way : possible)
    known(way).possible = true;
}

template <class Way, std::size_t count_of_ways>
auto BasicWayChoice<Way, count_of_ways>::next() noexcept -> Turn {
  ++messages_;
  last_batch_ = std::exchange(batch_, 1);
  switch (phase_) {
    case Phase::first:
      if (messages_ <= patience_) return {.way = way_, .weight = Weight::none};
      if (hint_ && known(hint_->way).possible) {
        follow_hint();
        return {.way = way_, .weight = Weight::full};
      }
      begin_trial(trial);
      return next_of_trial();
    case Phase::trial:
      return next_of_trial();
    case Phase::settled:
      break;
  }
  return next_of_settled();
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::follow_hint() noexcept {
  way_ = hint_->way;
  known(way_).predicted = hint_->ticks_per_byte;
  phase_ = Phase::settled;
  until_look_ = first_look_of_hint;
  early_looks_ = 0;
  for (const Known& each : known_)
    early_looks_ += each.possible ? 1 : 0;
  --early_looks_;
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::begin_trial(std::uint32_t messages) noexcept {
  phase_ = Phase::trial;
  turn_ = 0;
  round_ = 0;
  in_turn_ = longest_turn_ = 0;
  is_looking_ = false;
  way_count_ = 0;
  ways_[way_count_++] = way_;
  for (std::size_t i = 0; i < count_of_ways; ++i)
    if (known_[i].possible && static_cast<Way>(i) != way_) ways_[way_count_++] = static_cast<Way>(i);
  wanted_ = messages * way_count_;
  for (Known& each : known_)
    each.forget();
}

template <class Way, std::size_t count_of_ways>
auto BasicWayChoice<Way, count_of_ways>::next_of_trial() noexcept -> Turn {
  for (;;) {
    if (turn_ == way_count_) {
      turn_ = 0;
      ++round_;
      if (round_ >= most_rounds || is_decided()) {
        settle();
        return {.way = way_, .weight = Weight::none};
      }
    }
    const Way way = ways_[round_ % 2 == 0 ? turn_ : way_count_ - 1 - turn_];
    if (in_turn_ < block && !known(way).abandoned) {
      Turn turn{.way = way};
      if (way != way_ && !known(way).proven) turn.most = glimpse(known(way));
      count_of_trial();
      turn.weight = in_turn_ <= warm_up ? Weight::warning : Weight::full;
      return turn;
    }
    // Those that it would have had count as gone.
    wanted_ -= std::min(wanted_, block - std::min(block, in_turn_));
    longest_turn_ = std::max(longest_turn_, std::exchange(in_turn_, 0));
    ++turn_;
  }
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::count_of_trial() noexcept {
  ++in_turn_;
  if (wanted_ > 0) --wanted_;
}

/// All ways that are left have been measured enough; or one is left, and has been measured.
template <class Way, std::size_t count_of_ways>
bool BasicWayChoice<Way, count_of_ways>::is_decided() const noexcept {
  std::uint32_t left = 0, measured = 0, enough = 0;
  for (std::size_t i = 0; i < way_count_; ++i) {
    const Known& each = known(ways_[i]);
    if (each.abandoned) continue;
    ++left;
    measured += each.samples > 0 ? 1 : 0;
    enough += each.samples >= least_rounds ? 1 : 0;
  }
  return (left == 1 && measured == 1) || (wanted_ == 0 && round_ >= least_rounds && enough == left);
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::settle() noexcept {
  ++trials_;
  const Way before = way_;
  double least = known(way_).abandoned ? 0 : known(way_).median() * (1 - worth_it);
  for (std::size_t i = 0; i < count_of_ways; ++i) {
    Known& each = known_[i];
    each.predicted = each.median();
    each.least_predicted = each.lower_quartile();
    if (static_cast<Way>(i) != before && !each.abandoned && each.predicted > 0 &&
        (each.predicted < least || least == 0)) {
      least = each.predicted;
      way_ = static_cast<Way>(i);
    }
  }
  for (Known& each : known_)
    each.forget();
  since_settled_ = 0;
  until_look_ = std::max(look_every_, between_looks * longest_turn_);
  phase_ = Phase::settled;
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::join() noexcept {
  ++messages_;
  ++batch_;
  if (phase_ == Phase::trial)
    count_of_trial();
  else if (is_looking_)
    ++looking_;
  else if (until_look_ > 0)
    --until_look_;
}

template <class Way, std::size_t count_of_ways>
auto BasicWayChoice<Way, count_of_ways>::next_of_settled() noexcept -> Turn {
  if (!is_looking_ && until_look_ > 0) {
    --until_look_;
    const bool is_measured = batches_++ % measured_of == 0 || !is_seldom_measured();
    return {.way = way_, .weight = is_measured ? Weight::full : Weight::none};
  }
  if (!is_looking_) {
    do
      looked_at_ = static_cast<Way>((static_cast<std::size_t>(looked_at_) + 1) % count_of_ways);
    while (!known(looked_at_).possible || looked_at_ == way_);
    known(looked_at_).forget();
    is_looking_ = true;
    looking_ = 0;
  }
  if (looking_ < look && !known(looked_at_).abandoned)
    return {.way = looked_at_, .weight = looking_++ < look / 4 ? Weight::warning : Weight::full};
  judge_look();
  return {.way = way_, .weight = Weight::none};
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::judge_look() noexcept {
  const double other = known(looked_at_).abandoned ? 0 : known(looked_at_).median();
  const double own = known(way_).median(recent);
  is_looking_ = false;
  if (other > 0 && own > 0 && other < own * (1 - worth_it)) {
    look_every_ = first_look;
    return begin_trial(trial);
  }
  if (early_looks_ > 0) --early_looks_;
  if (early_looks_ == 0) look_every_ = std::min(look_every_ * 2, rarest_look);
  until_look_ = early_looks_ > 0 ? std::max(first_look_of_hint, between_early_looks * looking_)
                                 : std::max(look_every_, between_looks * looking_);
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::took(const Turn& turn, const Cost& cost) noexcept {
  if (cost.ticks <= 0) return;
  Known& of = known(turn.way);
  if (turn.way == assumed_ && cost.passed > 0) notice_passed(cost);
  if (cost.other_bytes != 0) return glimpse_at(of, cost);
  if (turn.way != assumed_ || turn.way != way_) strike(of, cost);
  if (phase_ == Phase::settled && of.abandoned && turn.way == way_) return fall_back();
  if (turn.weight == Weight::none || (turn.weight == Weight::warning && cost.messages < long_batch)) return;
  of.add(cost.ticks / static_cast<double>(cost.bytes), cost.messages);
  of.proven = true;
  if (phase_ == Phase::trial) drop_the_slow();
  if (phase_ == Phase::settled && turn.way == way_) notice_drift();
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::glimpse_at(Known& of, const Cost& cost) noexcept {
  const double own = known(way_).median();
  if (own == 0 || phase_ != Phase::trial || cost.other_bytes >= cost.bytes) return;
  const double rest = cost.ticks - own * static_cast<double>(cost.other_bytes);
  const double usual = own * static_cast<double>(cost.bytes - cost.other_bytes);
  of.proven = rest <= hopeless * usual;
  of.unclear = !of.proven && rest <= hopeless_of_half * usual;
  of.failures = static_cast<std::uint8_t>(of.proven ? 0 : of.failures + 1);
  if (of.failures >= glimpses_out) of.abandoned = true;
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::drop_the_slow() noexcept {
  double least = 0;
  for (const Known& each : known_) {
    const bool is_known =
        each.samples >= enough_to_drop || (each.samples >= least_rounds && each.longest >= whole_batch);
    if (is_known && (least == 0 || each.median() < least)) least = each.median();
  }
  if (least == 0) return;
  for (Known& each : known_) {
    const bool is_chosen = &each == &known(way_);
    const std::uint32_t enough = is_chosen ? 2 * enough_to_drop : enough_to_drop;
    if ((each.samples >= enough && each.median() > hopeless * least) ||
        (!is_chosen && each.longest >= whole_batch && each.median() > plainly_slow * least))
      each.abandoned = true;
  }
}

/// Of a way that is being tried, or has been chosen though nobody would have assumed it.
template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::strike(Known& of, const Cost& cost) noexcept {
  of.strikes = static_cast<std::uint8_t>(is_far_too_long(cost) ? of.strikes + 1 : 0);
  if (of.strikes >= strikes_out) of.abandoned = true;
}

template <class Way, std::size_t count_of_ways>
bool BasicWayChoice<Way, count_of_ways>::is_far_too_long(const Cost& cost) const noexcept {
  const auto bytes = static_cast<double>(cost.bytes);
  if (cost.passed > 0)
    return usually_passed_ > 0 && cost.passed > out_of_the_question_shared_ticks &&
           cost.passed > out_of_the_question * usually_passed_ * bytes;
  const double own = phase_ == Phase::settled ? known(way_).predicted : known(way_).median();
  return own > 0 && cost.ticks > out_of_the_question_ticks && cost.ticks > out_of_the_question * own * bytes;
}

/// What has waited for its core for long moves it by no more than what has not.
template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::notice_passed(const Cost& cost) noexcept {
  const double passed = cost.passed / static_cast<double>(cost.bytes);
  if (usually_passed_ == 0) usually_passed_ = passed;
  usually_passed_ += (std::min(passed, 2 * usually_passed_) - usually_passed_) / usual_of;
}

/// The chosen way has begun to take far too long, as one does that needs a sender who computes now. What the
/// plan assumes may not, and the next look is far away.
template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::fall_back() noexcept {
  way_ = assumed_;
  for (Known& each : known_)
    each.forget();
  since_settled_ = 0;
  look_every_ = std::min(look_every_ * 2, rarest_look);
  until_look_ = look_every_;
}

template <class Way, std::size_t count_of_ways>
void BasicWayChoice<Way, count_of_ways>::notice_drift() noexcept {
  const double before = known(way_).predicted;
  if (++since_settled_ == calm) drift_patience_ = first_drift_patience;
  if (since_settled_ < drift_patience_ || since_settled_ % (recent / 2) != 0 || before == 0) return;
  const double lately = known(way_).median(recent);
  // What has been told of other messages than these may be too much as well.
  const bool is_told = trials_ == 0 && lately * drifted < before;
  if (lately <= drifted * before && !is_told) return;
  drift_patience_ = std::min(drift_patience_ * 2, longest_drift_patience);
  begin_trial(retrial);
}

template class BasicWayChoice<LongWay, long_way_count>;
template class BasicWayChoice<EagerWay, eager_way_count>;
template class BasicWayChoice<GpuWay, gpu_way_count>;

}  // namespace isthmus
