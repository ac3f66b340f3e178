#include "coll/select/call_choice.hpp"

#include <algorithm>
#include <utility>

namespace isthmus::coll {
namespace {

/// Samples of the chosen way before drift is believed. Twice as many after each time that it was, until there
/// has been none for long.
constexpr std::uint32_t first_drift_patience = 4;
constexpr std::uint32_t longest_drift_patience = 4096;
constexpr std::uint32_t calm = 1000;

// The word: `from`, then fields of so many bits.
constexpr unsigned before_at = 32, after_at = 36, turn_from = 40, tried_at = 46, reversed_at = 54,
                   settling_at = 55;

std::uint64_t number_of(const std::optional<TeamWay>& way) noexcept {
  return way ? 1 + static_cast<std::uint64_t>(*way) : 0;
}

/// What is no number of a way is as the table has it.
std::optional<TeamWay> way_numbered(std::uint64_t number) noexcept {
  if (number == 0 || number > team_way_count) return std::nullopt;
  return static_cast<TeamWay>(number - 1);
}

}  // namespace

std::uint64_t CallSchedule::packed() const noexcept {
  return std::uint64_t{from} | number_of(before) << before_at | number_of(after) << after_at |
         std::uint64_t{turn} << turn_from | std::uint64_t{tried.bits()} << tried_at |
         std::uint64_t{reversed} << reversed_at | std::uint64_t{settling} << settling_at;
}

CallSchedule CallSchedule::of(std::uint64_t word) noexcept {
  CallSchedule schedule{.from = static_cast<std::uint32_t>(word),
                        .before = way_numbered(word >> before_at & 0xf),
                        .after = way_numbered(word >> after_at & 0xf),
                        .turn = static_cast<std::uint8_t>(word >> turn_from & longest_turn),
                        .tried = TeamWays(static_cast<std::uint8_t>(word >> tried_at & 0xff)),
                        .reversed = (word >> reversed_at & 1) != 0,
                        .settling = static_cast<std::uint8_t>(word >> settling_at & longest_turn)};
  if (schedule.tried.count() == 0) schedule.turn = 0;
  return schedule;
}

CallSchedule::Turn CallSchedule::turn_at(std::uint32_t index) const noexcept {
  const unsigned count = tried.count();
  for (unsigned i = 0; i < count; ++i) {
    const TeamWay way = tried.at(reversed ? count - 1 - i : i);
    const std::uint32_t before = way == TeamWay::messages ? settling : 0;
    if (index < before + turn || i + 1 == count)
      return {.way = way, .place = index, .counts = index >= before + warm_up};
    index -= before + turn;
  }
  return {};
}

double CallChoice::Known::median(std::size_t most) const noexcept {
  const std::size_t count = std::min({most, capacity, static_cast<std::size_t>(samples)});
  if (count == 0) return 0;
  std::array<float, capacity> last{};
  for (std::size_t i = 0; i < count; ++i)
    last[i] = costs[(samples - 1 - i) % capacity];
  const auto middle = last.begin() + static_cast<std::ptrdiff_t>((count - 1) / 2);
  std::nth_element(last.begin(), middle, last.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

CallChoice::CallChoice(TeamWay assumed, TeamWays possible, std::uint32_t lead, std::optional<Hint> hint,
                       std::uint32_t begins_after, CallSettling settling) noexcept
    : way_(assumed),
      assumed_(assumed),
      possible_(possible),
      lead_(lead),
      settling_(settling),
      hint_(hint),
      due_(std::uint64_t{begins_after} + 1),
      looked_at_(assumed),
      drift_patience_(first_drift_patience) {}

void CallChoice::count_in_schedule(std::uint32_t step) noexcept {
  if (!is_under_way_ || has_ended_ || !said_.has_begun(step)) return;
  if (in_turns_ < said_.calls()) {
    explored_ += said_.way_at(in_turns_) != way_ ? 1 : 0;
    ++in_turns_;
    return;
  }
  has_ended_ = true;
  ended_at_ = latest_;
}

std::optional<CallSchedule> CallChoice::decide(std::uint32_t step) noexcept {
  if (is_under_way_) {
    // What is said next must not change how a member goes that is behind, and all costs must be known.
    // A call before `ended_at_` is less than `lead_` behind it.
    if (!has_ended_ || step - ended_at_ < lead_ || ended_at_ - step < lead_) return std::nullopt;
    is_under_way_ = false;
  }
  switch (phase_) {
    case Phase::first:
      if (hint_ && possible_.has(hint_->way)) {
        phase_ = Phase::settled;
        is_told_ = true;
        known(hint_->way).predicted = hint_->ticks_per_byte;
        until_look_ = first_look_of_hint;
        next_look_ = calls_ + until_look_;
        return say(step, hint_->way);
      }
      return begin_trial(step);
    case Phase::first_turns:
      return judge_first(step);
    case Phase::second_turns:
      return settle(step);
    case Phase::looking:
      return judge_look(step);
    case Phase::settled:
      break;
  }
  if (std::exchange(has_drifted_, false)) return begin_trial(step);
  if (calls_ >= next_look_) return look(step);
  due_ = next_look_;
  return std::nullopt;
}

CallSchedule CallChoice::say(std::uint32_t step, TeamWay after, TeamWays tried, std::uint8_t turn,
                             bool reversed, std::uint8_t settling) noexcept {
  said_ = {.from = step + lead_,
           .before = way_,
           .after = after,
           .turn = turn,
           .tried = tried,
           .reversed = reversed,
           .settling = settling};
  way_ = after;
  is_under_way_ = true;
  has_ended_ = false;
  are_learning_ = false;
  in_turns_ = 0;
  due_ = 0;
  return said_;
}

CallSchedule CallChoice::begin_trial(std::uint32_t step) noexcept {
  phase_ = Phase::first_turns;
  forget_all();
  return say(step, way_, possible_, first_turn, false,
             trials_ == 0 && !settling_.is_late ? settling_.calls : std::uint8_t{0});
}

TeamWay CallChoice::fastest() const noexcept {
  TeamWay best = way_;
  double least = known(way_).median();
  for (unsigned i = 0; i < possible_.count(); ++i) {
    const TeamWay way = possible_.at(i);
    const double cost = known(way).median();
    if (cost > 0 && (least == 0 || cost < least)) {
      least = cost;
      best = way;
    }
  }
  return best;
}

/// The fastest ones, as many as have a second turn.
TeamWays CallChoice::rivals_of(double least) const noexcept {
  TeamWays rivals;
  TeamWays rest = possible_;
  while (rivals.count() < finalists && rest.count() > 0) {
    std::optional<TeamWay> next;
    for (unsigned i = 0; i < rest.count(); ++i)
      if (!next || known(rest.at(i)).median() < known(*next).median()) next = rest.at(i);
    rest.remove(*next);
    const double cost = known(*next).median();
    if (cost > 0 && cost <= hopeless * least) rivals.add(*next);
  }
  return rivals;
}

bool CallChoice::are_unlearned(double least) const noexcept {
  const double cost = known(TeamWay::messages).median();
  return trials_ == 0 && settling_.is_late && settling_.calls > 0 && cost > 0 &&
         cost <= hopeless_unlearned * least;
}

bool CallChoice::are_to_settle(double least) const noexcept {
  return are_learning_ && settlings_ < most_settling &&
         known(TeamWay::messages).median() <= hopeless_unlearned * least;
}

std::optional<CallSchedule> CallChoice::judge_first(std::uint32_t step) noexcept {
  const TeamWay best = fastest();
  const double least = known(best).median();
  // Where the way so far is out of the question, the best one is better meanwhile.
  const TeamWay meanwhile = known(way_).median() > hopeless * least ? best : way_;
  if (are_to_settle(least)) {
    ++settlings_;
    known(TeamWay::messages).samples = 0;
    return say(step, meanwhile, TeamWays().add(TeamWay::messages), first_turn, false, more_settling);
  }
  TeamWays rivals = rivals_of(least);
  const bool settles = are_unlearned(least);
  // Messages have them beside the others.
  if (settles) rivals.add(TeamWay::messages);
  if (rivals.count() < 2) return settle(step);
  phase_ = Phase::second_turns;
  // What they took until now is not what they will take.
  if (settles) known(TeamWay::messages).samples = 0;
  return say(step, meanwhile, rivals, second_turn, true, settles ? settling_.calls : std::uint8_t{0});
}

std::optional<CallSchedule> CallChoice::settle(std::uint32_t step) noexcept {
  const TeamWay best = fastest();
  const double own = known(way_).median();
  // Where the way so far has not been measured, nothing is known to be better.
  const TeamWay chosen = own == 0 || known(best).median() > own * (1 - worth_it) ? way_ : best;
  ++trials_;
  for (Known& each : known_)
    if (const double cost = each.median(); cost > 0) each.predicted = cost;
  forget_all();
  since_settled_ = 0;
  phase_ = Phase::settled;
  next_look_ = calls_ + until_look_;
  if (chosen != way_) return say(step, chosen);
  due_ = next_look_;
  return std::nullopt;
}

CallSchedule CallChoice::look(std::uint32_t step) noexcept {
  do
    looked_at_ = static_cast<TeamWay>((static_cast<std::size_t>(looked_at_) + 1) % team_way_count);
  while (!possible_.has(looked_at_) || looked_at_ == way_);
  known(looked_at_).samples = 0;
  phase_ = Phase::looking;
  return say(step, way_, TeamWays().add(looked_at_), first_turn);
}

std::optional<CallSchedule> CallChoice::judge_look(std::uint32_t step) noexcept {
  const double other = known(looked_at_).median();
  const double own = known(way_).median(2 * recent);
  if (other > 0 && own > 0 && other < own * (1 - worth_it)) {
    // The two of them, in turn.
    until_look_ = first_look;
    phase_ = Phase::second_turns;
    forget_all();
    return say(step, way_, TeamWays().add(looked_at_).add(way_), second_turn);
  }
  phase_ = Phase::settled;
  // Each other way is looked at once before looks become rare.
  if (!is_told() || ++looks_of_hint_ + 1 >= possible_.count())
    until_look_ = std::min(std::max(2 * until_look_, first_look), rarest_look);
  next_look_ = calls_ + until_look_;
  due_ = next_look_;
  return std::nullopt;
}

void CallChoice::took(TeamWay way, std::optional<std::uint32_t> index, double ticks_per_byte,
                      bool is_learning) noexcept {
  if (!(ticks_per_byte > 0) || (index && !said_.turn_at(*index).counts)) return;
  if (index && way == TeamWay::messages) are_learning_ = are_learning_ || is_learning;
  known(way).add(ticks_per_byte);
  if (phase_ == Phase::settled && way == way_) notice_drift();
}

void CallChoice::notice_drift() noexcept {
  const double before = known(way_).predicted;
  if (++since_settled_ == calm) drift_patience_ = first_drift_patience;
  if (since_settled_ < drift_patience_ || before == 0) return;
  const double lately = known(way_).median(recent);
  // What has been told of other calls than these may be too much as well.
  const bool was_told_too_much = is_told() && lately * drifted < before;
  if (lately <= drifted * before && !was_told_too_much) return;
  drift_patience_ = std::min(drift_patience_ * 2, longest_drift_patience);
  since_settled_ = 0;
  has_drifted_ = true;
  due_ = 0;
}

void CallChoice::forget_all() noexcept {
  for (Known& each : known_)
    each.samples = 0;
}

}  // namespace isthmus::coll
