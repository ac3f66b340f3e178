#include "coll/team/live_calls.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <new>

#include "coll/area/touch.hpp"
#include "route/live_plans.hpp"

namespace isthmus::coll {
namespace {

constexpr std::uint64_t number_mask = 0xffff'ffff;

/// Calls over messages before these have settled: long messages of a new kind go as assumed ten times, then
/// three ways have five each, and some are spoiled. Who learns what others have found needs little more than
/// the ten.
constexpr std::uint8_t settling_of_new = 36;
constexpr std::uint8_t settling_of_known = 12;

/// What a message through the ring takes at most, to a staged call, where messages have not been learned yet:
/// the few of a turn go as their own plan assumes. bcast of 64 and 256 KiB: 1.6 and 1.2; far cores: 1.1.
constexpr double ring_to_staged = 1.6;

/// Of the first class: from there on, two for each power of two.
constexpr std::size_t first_class = 2 * (std::bit_width(LiveCalls::above) - 1);

constexpr bool is_over_messages(TeamWay way) noexcept {
  return way == TeamWay::messages || way == TeamWay::tree;
}

/// The collective of a row of classes.
constexpr Collective collective_of(std::size_t row) noexcept {
  return static_cast<Collective>(row + static_cast<std::size_t>(Collective::bcast));
}
static_assert(collective_of(LiveCalls::collectives - 1) == Collective::reduce_scatter);

}  // namespace

std::size_t LiveCalls::class_of(Collective collective, std::uint64_t bytes) noexcept {
  const auto row = static_cast<std::size_t>(collective) - static_cast<std::size_t>(Collective::bcast);
  return row * size_classes + SharedCallLessons::size_class_of(bytes);
}

std::string_view LiveCalls::collective_name(std::size_t call_class) noexcept {
  return name(collective_of(call_class / size_classes));
}

std::uint64_t LiveCalls::most_of(std::size_t call_class) noexcept {
  const std::size_t number = call_class % size_classes + first_class;
  const std::uint64_t power = std::uint64_t{1} << (number / 2);
  return number % 2 == 0 ? power + power / 2 : 2 * power;
}

TeamWay LiveCalls::begin(const Area& area, const Steps& steps, const Question& question, TeamWay assumed,
                         TeamWays possible) noexcept {
  if (member_.forced) return possible.has(*member_.forced) ? *member_.forced : assumed;
  const std::size_t call_class = class_of(question.collective, question.bytes);
  const auto step = static_cast<std::uint32_t>(steps.next);
  CallChoice* choice = nullptr;
  if (member_.rank == 0) {
    learn(area, steps);
    choice = find(call_class, question.bytes, assumed, possible);
    if (choice) {
      const std::uint32_t trials = choice->trials();
      if (const auto said = choice->next(step))
        area.schedule(call_class).store(said->packed(), std::memory_order_release);
      if (choice->trials() != trials) share(call_class, *choice);
    }
  }
  const CallSchedule schedule = CallSchedule::of(area.schedule(call_class).load(std::memory_order_acquire));
  ++number_;
  std::optional<std::uint32_t> index;
  std::optional<TeamWay> way = schedule.before;
  if (schedule.has_begun(step)) {
    way = schedule.after;
    Progress& progress = progress_[call_class];
    if (progress.from != schedule.from) progress = {.from = schedule.from, .calls = 0};
    if (progress.calls < schedule.calls()) {
      index = progress.calls++;
      way = schedule.way_at(*index);
      touch_slots(area, question.bytes);
    }
  }
  const TeamWay chosen = way && possible.has(*way) ? *way : assumed;
  // The first call of the turn, which does not count, has opened the rings that these messages take.
  if (index && is_over_messages(chosen) && schedule.turn_at(*index).place == CallChoice::warm_up)
    map_rings(mapped_messages * question.bytes);
  is_measured_ = index || number_ % measured_each(question.bytes) == 0;
  if (member_.rank == 0)
    begun_[number_ % timed_calls] = {.choice = is_measured_ ? choice : nullptr,
                                     .step = steps.next,
                                     .bytes = question.bytes,
                                     .index = index,
                                     .way = chosen};
  if (is_measured_) began_ = clock_();
  return chosen;
}

/// What a page takes that is used for the first time is not what a way takes: without this, a bcast of 8 KiB
/// among two took 10.7 us flat in its first turn and 0.4 later. As much of each slot as calls of `bytes` for
/// each member need; of more than `flat_ranks` members it would be too much.
void LiveCalls::touch_slots(const Area& area, std::uint64_t bytes) noexcept {
  const std::uint64_t most = std::min(bytes * static_cast<unsigned>(member_.size), slot_bytes);
  if (most <= touched_ || member_.size > flat_ranks) return;
  touched_ = most;
  for (std::uint64_t step = 0; step < depth; ++step)
    for (int rank = 0; rank < member_.size; ++rank)
      touch_pages(area.slot(step, rank), most);
  for (std::uint64_t meeting = 0; meeting < 2; ++meeting)
    for (int node = 0; node < area.nodes(); ++node)
      touch_pages(area.node_slot(meeting, node), most);
}

/// As with slots. Messages that are not answered go on through a ring, and 64 KiB take 43 us where it is new,
/// and 1.8 later. All of a ring for calls of 2 KiB would cost as much as 1000 of them.
void LiveCalls::map_rings(std::uint64_t bytes) noexcept {
  if (bytes <= mapped_ || !member_.map_rings || member_.size > flat_ranks) return;
  mapped_ = bytes;
  member_.map_rings(bytes);
}

void LiveCalls::write_time(const Area& area) noexcept {
  const std::uint64_t now = clock_();
  const std::uint64_t took =
      std::min<std::uint64_t>(now > began_ ? now - began_ : 0, std::numeric_limits<std::uint32_t>::max());
  CallTime& time = area.time(member_.rank, number_);
  time.began.store(began_, std::memory_order_relaxed);
  time.took.store((number_ & number_mask) << 32 | took, std::memory_order_release);
}

/// Of all calls behind which all members have begun another one.
void LiveCalls::learn(const Area& area, const Steps& steps) noexcept {
  while (learned_ < number_) {
    const std::uint64_t next =
        learned_ + 1 < number_ ? begun_[(learned_ + 2) % timed_calls].step : steps.next;
    if (next > steps.finished) return;
    const Begun& call = begun_[++learned_ % timed_calls];
    if (!call.choice) continue;
    if (const auto took = read_time(area, learned_))
      call.choice->took(call.way, call.index, static_cast<double>(*took) / static_cast<double>(call.bytes));
  }
}

/// From when the last has begun it to when the last has ended it. Nothing where somebody has not said it.
std::optional<std::uint64_t> LiveCalls::read_time(const Area& area, std::uint64_t number) const noexcept {
  std::uint64_t began = 0;
  std::uint64_t ended = 0;
  for (int rank = 0; rank < member_.size; ++rank) {
    const CallTime& time = area.time(rank, number);
    const std::uint64_t took = time.took.load(std::memory_order_acquire);
    if (took >> 32 != (number & number_mask)) return std::nullopt;
    const std::uint64_t begin = time.began.load(std::memory_order_relaxed);
    began = std::max(began, begin);
    ended = std::max(ended, begin + (took & number_mask));
  }
  return ended - began;
}

std::uint8_t LiveCalls::settling_of(std::uint64_t bytes, std::uint64_t eager_limit,
                                    const SharedLessons& messages, bool spread) noexcept {
  if (bytes <= eager_limit) return 0;
  const bool is_known =
      messages
          .read({.far = spread, .all_ways = true, .many = false, .size_class = LivePlans::class_of(bytes)})
          .has_value();
  return is_known ? settling_of_known : settling_of_new;
}

CallChoice* LiveCalls::find(std::size_t call_class, std::uint64_t bytes, TeamWay assumed,
                            TeamWays possible) noexcept {
  std::unique_ptr<CallChoice>& choice = choices_[call_class];
  if (choice) return choice.get();
  std::optional<CallChoice::Hint> hint;
  if (const auto told = member_.shared.read(kind_of(call_class)))
    hint = {.way = static_cast<TeamWay>(told->way),
            .ticks_per_byte = told->ticks_per_byte,
            .is_tuned = told->is_tuned};
  // Without memory the class goes as the table has it.
  choice.reset(new (std::nothrow) CallChoice(
      assumed, possible, depth, hint, CallChoice::patience,
      {.calls = settling_of(bytes, member_.eager_limit, member_.messages, spread_), .is_late = true}));
  return choice.get();
}

/// Of the ways that calls have too which do not block, the one that took the least.
std::optional<TeamWay> LiveCalls::fastest_in_lanes(std::size_t call_class,
                                                   const CallChoice& choice) const noexcept {
  std::optional<TeamWay> fastest;
  double least = 0;
  const TeamWays also_in_lanes = choice.possible().and_of(ways_in_lanes);
  for (unsigned i = 0; i < also_in_lanes.count(); ++i) {
    const TeamWay way = also_in_lanes.at(i);
    const double cost = cost_in_lanes(call_class, choice, way);
    if (cost <= 0 || (least > 0 && cost >= least)) continue;
    least = cost;
    fastest = way;
  }
  return fastest;
}

/// Per byte; 0: not known. The few messages of a turn go as their own plan assumes: where messages of that
/// length have been learned in this job, what they take counts.
double LiveCalls::cost_in_lanes(std::size_t call_class, const CallChoice& choice,
                                TeamWay way) const noexcept {
  const double cost = choice.predicted(way);
  if (way != TeamWay::messages) return cost;
  double later = 0;
  if (collective_of(call_class / size_classes) == Collective::bcast) {
    const auto learned = member_.messages.read({.far = spread_,
                                                .all_ways = true,
                                                .many = false,
                                                .size_class = LivePlans::class_of(most_of(call_class) - 1)});
    const auto rounds = static_cast<double>(std::bit_width(static_cast<unsigned>(member_.size - 1)));
    if (learned) later = rounds * learned->ticks_per_byte;
  }
  if (later == 0) later = ring_to_staged * choice.predicted(TeamWay::staged);
  if (later == 0) return cost;
  return cost > 0 ? std::min(cost, later) : later;
}

/// What a trial has found.
void LiveCalls::share(std::size_t call_class, const CallChoice& choice) const noexcept {
  const auto in_lanes = fastest_in_lanes(call_class, choice);
  member_.shared.write(
      kind_of(call_class),
      {.way = static_cast<std::uint8_t>(choice.way()), .ticks_per_byte = choice.predicted(choice.way())},
      in_lanes ? std::optional(static_cast<std::uint8_t>(*in_lanes)) : std::nullopt);
}

void LiveCalls::add_to(std::vector<CallReport>& reports, double nanoseconds) const {
  for (std::size_t call_class = 0; call_class < call_classes; ++call_class) {
    const CallChoice* const choice = choices_[call_class].get();
    if (!choice || !choice->is_settled()) continue;
    const std::uint64_t most = most_of(call_class);
    const double unit = nanoseconds / 1000 * static_cast<double>(most);
    CallReport report{.collective = collective_name(call_class),
                      .members = member_.size,
                      .up_to = most,
                      .told = choice->is_told(),
                      .tuned = choice->is_tuned(),
                      .spread = spread_,
                      .ticks_per_byte = choice->predicted(choice->way()),
                      .in_lanes = {},
                      .way = name(choice->way()),
                      .assumed = name(choice->assumed()),
                      .calls = choice->calls(),
                      .ways = {}};
    if (const auto way = fastest_in_lanes(call_class, *choice)) report.in_lanes = name(*way);
    for (unsigned i = 0; i < choice->possible().count(); ++i) {
      const TeamWay way = choice->possible().at(i);
      report.ways.push_back({.name = name(way),
                             .predicted = choice->predicted(way) * unit,
                             .measured = choice->measured(way) * unit});
    }
    reports.push_back(std::move(report));
  }
}

}  // namespace isthmus::coll
