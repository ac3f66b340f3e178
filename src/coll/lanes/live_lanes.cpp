#include "coll/lanes/live_lanes.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <new>

#include "coll/team/live_calls.hpp"
#include "coll/team/team.hpp"
#include "p2p/engine.hpp"
#include "route/live_plans.hpp"

namespace isthmus::coll {
namespace {

/// Calls over messages before their turn begins, where messages go with their envelope from the first one on.
constexpr std::uint8_t settling_of_short = 4;

/// A member's part of a time: the number of the call, of 30 bits, whether its messages still learn, whether
/// it teaches something, then ticks.
constexpr unsigned number_at = 34;
constexpr std::uint64_t learning_bit = std::uint64_t{1} << 33;
constexpr std::uint64_t teaches_bit = std::uint64_t{1} << 32;
constexpr std::uint64_t most_ticks = std::numeric_limits<std::uint32_t>::max();

}  // namespace

std::uint32_t LiveLanes::chooser(const Engine& engine) {
  if (way_of(engine.settings().collective_way)) return LaneHeader::forced;
  return measures_calls(engine) ? LaneHeader::learned : LaneHeader::by_table;
}

void LiveLanes::open(const Communicator& comm, bool learns) {
  speaks_ = comm.rank() == 0;
  const Engine& engine = comm.engine();
  members_ = comm.size();
  eager_limit_ = engine.eager_limit();
  is_explained_ = speaks_ && engine.settings().explain != ExplainSetting::off;
  forced_ = way_of(engine.settings().collective_way);
  measures_ = learns;
  learns_ = learns && speaks_;
  if (!learns_) return;
  lessons_ = SharedCallLessons(engine.region().header().call_lessons);
  messages_ = SharedLessons(engine.region().header().lessons);
  begun_.reserve(most_begun);
}

LiveLanes::Said LiveLanes::ask(const Asked& asked, ScheduleWord& word, const StripeMemory& memory,
                               const Communicator& comm) {
  const auto lead = static_cast<std::uint32_t>(memory.lead());
  Learner* learner = nullptr;
  if (speaks_) {
    if (!spread_) spread_ = is_on_several_sockets(comm);
    if (forced_ && word.load(std::memory_order_relaxed) == 0)
      word.store(CallSchedule{.from = asked.number_in_class + lead, .after = forced_}.packed(),
                 std::memory_order_release);
    if (learns_) collect(memory, asked.number);
    if (learns_) learner = find(asked.schedule);
    if (learner) learn(*learner, asked, word, lead);
  }
  const auto [way, index] = read(word, asked.number_in_class);
  Said said{.way = way && asked.possible.has(*way) ? *way : asked.assumed, .is_in_turn = index.has_value()};
  said.is_measured = measures_ && (index || asked.number_in_class <= first_measured ||
                                   asked.number_in_class % measured_each == 0);
  if (learner && said.is_measured) {
    // The oldest is of a persistent operation that has not been started for long.
    if (begun_.size() == most_begun) begun_.erase(begun_.begin());
    begun_.push_back({.memory = &memory,
                      .learner = learner,
                      .number = asked.number,
                      .bytes = asked.bytes,
                      .index = index,
                      .said_from = learner->choice ? learner->choice->said_from() : 0,
                      .way = said.way});
  }
  if (is_explained_) note(asked, said.way, learner);
  return said;
}

LiveLanes::Read LiveLanes::read(const ScheduleWord& word, std::uint32_t number) noexcept {
  const CallSchedule schedule = CallSchedule::of(word.load(std::memory_order_acquire));
  if (!schedule.has_begun(number)) return {.way = schedule.before};
  const std::uint32_t place = number - schedule.from;
  if (place >= schedule.calls()) return {.way = schedule.after};
  return {.way = schedule.way_at(place), .index = place};
}

/// Null without memory: calls go as the table has it.
LiveLanes::Learner* LiveLanes::find(std::size_t schedule) noexcept try {
  return &learners_[schedule];
} catch (const std::bad_alloc&) {
  return nullptr;
}

/// What is to be said before this call, if anything.
void LiveLanes::learn(Learner& learner, const Asked& asked, ScheduleWord& word, std::uint32_t lead) {
  if (!learner.choice) begin_choice(learner, asked, lead);
  if (!learner.choice) return;
  CallChoice& choice = *learner.choice;
  const std::uint32_t trials = choice.trials();
  if (const auto said = choice.next(asked.number_in_class))
    word.store(said->packed(), std::memory_order_release);
  const TeamWay way = choice.way();
  if (choice.trials() != trials && choice.predicted(way) > 0)
    lessons_.write_in_lanes(LiveCalls::kind_of(asked.call_class, members_, *spread_),
                            static_cast<std::uint8_t>(way));
}

/// With what others have found, at once; else when calls have taught something.
void LiveLanes::begin_choice(Learner& learner, const Asked& asked, std::uint32_t lead) const {
  const auto told = lessons_.read_in_lanes(LiveCalls::kind_of(asked.call_class, members_, *spread_));
  if (told && asked.possible.has(static_cast<TeamWay>(*told))) {
    learner.choice.emplace(asked.assumed, asked.possible, lead,
                           CallChoice::Hint{.way = static_cast<TeamWay>(*told)}, 0);
    return;
  }
  if (learner.taught < enough) return;
  const std::uint8_t settling =
      std::max(settling_of_short, LiveCalls::settling_of(asked.bytes, eager_limit_, messages_, *spread_));
  learner.choice.emplace(asked.assumed, asked.possible, lead, std::nullopt, 0,
                         CallSettling{.calls = settling});
}

/// Of the calls of that stripe of which all members have told what they took: from when the last one has
/// begun it to when the last one has ended it. A member that is late with that may never tell.
void LiveLanes::collect(const StripeMemory& memory, std::uint64_t number) noexcept {
  std::erase_if(begun_, [&](const Begun& call) {
    if (call.memory != &memory) return false;
    if (number > call.number + 2 * memory.lead()) return true;
    std::uint64_t began = 0;
    std::uint64_t ended = 0;
    bool teaches = true;
    bool is_learning = false;
    for (int rank = 0; rank < members_; ++rank) {
      const auto time = read_time(memory.time(rank, call.number), call.number);
      if (!time) return false;
      teaches = teaches && time->teaches;
      is_learning = is_learning || time->is_learning;
      began = std::max(began, time->began);
      ended = std::max(ended, time->ended);
    }
    if (!teaches || ended <= began) return true;
    Learner& learner = *call.learner;
    ++learner.taught;
    // A time that is told late is one of turns that have been judged.
    if (learner.choice && (!call.index || learner.choice->said_from() == call.said_from))
      learner.choice->took(call.way, call.index,
                           static_cast<double>(ended - began) / static_cast<double>(call.bytes), is_learning);
    return true;
  });
}

void LiveLanes::write_time(CallTime& time, std::uint64_t number, const Time& taken) noexcept {
  const std::uint64_t took = std::min(taken.ended > taken.began ? taken.ended - taken.began : 0, most_ticks);
  time.began.store(taken.began, std::memory_order_relaxed);
  time.took.store(
      number << number_at | (taken.is_learning ? learning_bit : 0) | (taken.teaches ? teaches_bit : 0) | took,
      std::memory_order_release);
}

std::optional<LiveLanes::Time> LiveLanes::read_time(const CallTime& time, std::uint64_t number) noexcept {
  const std::uint64_t took = time.took.load(std::memory_order_acquire);
  if (took >> number_at != number << number_at >> number_at) return std::nullopt;
  const std::uint64_t began = time.began.load(std::memory_order_relaxed);
  return Time{.began = began,
              .ended = began + (took & most_ticks),
              .teaches = (took & teaches_bit) != 0,
              .is_learning = (took & learning_bit) != 0};
}

void LiveLanes::note(const Asked& asked, TeamWay taken, const Learner* learner) noexcept {
  try {
    Noted& noted = noted_[{asked.form, asked.call_class}];
    noted.assumed = asked.assumed;
    noted.last = taken;
    noted.learner = learner;
    ++noted.calls[static_cast<std::size_t>(taken)];
  } catch (const std::bad_alloc&) {
    return;  // a report that says less
  }
}

void LiveLanes::add_to(std::vector<CallReport>& reports, double nanoseconds) const {
  for (const auto& [kind, noted] : noted_) {
    const auto [form, call_class] = kind;
    const CallChoice* const choice =
        noted.learner && noted.learner->choice ? &*noted.learner->choice : nullptr;
    CallReport report{.form = form,
                      .collective = LiveCalls::collective_name(call_class),
                      .members = members_,
                      .up_to = LiveCalls::most_of(call_class),
                      .told = choice ? choice->is_told() : noted.last != noted.assumed,
                      .way = name(noted.last),
                      .assumed = name(noted.assumed),
                      .calls_so = noted.calls[static_cast<std::size_t>(noted.last)]};
    if (spread_) report.spread = *spread_;
    if (choice && choice->trials() > 0) report.in_lanes = name(choice->way());
    const double unit = nanoseconds / 1000 * static_cast<double>(report.up_to);
    for (std::size_t i = 0; i < team_way_count; ++i) {
      const auto way = static_cast<TeamWay>(i);
      report.calls += noted.calls[i];
      if (noted.calls[i] > 0)
        report.ways.push_back({.name = name(way),
                               .predicted = choice ? choice->predicted(way) * unit : 0,
                               .measured = choice ? choice->measured(way) * unit : 0});
    }
    reports.push_back(std::move(report));
  }
}

}  // namespace isthmus::coll
