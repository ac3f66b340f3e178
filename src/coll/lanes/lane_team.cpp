#include "coll/lanes/lane_team.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/system/processor.hpp"
#include "base/ticks.hpp"
#include "coll/area/touch.hpp"
#include "coll/context/footing.hpp"
#include "coll/flow/ranks.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/team/live_calls.hpp"

namespace isthmus::coll {
namespace {

/// For how long a rank may be out of MPI in a call that teaches something: it comes back from its start, and
/// waits for it. No part of what it took, which is long where a processor was taken away.
constexpr double away_nanoseconds = 1000;

}  // namespace

LaneTeam::LaneTeam(Communicator& comm)
    : comm_(comm),
      engine_(comm.engine()),
      sleeps_(engine_.peers_sleep()),
      hands_back_(hands_back_lines(engine_.settings().lines)),
      area_(comm.size()),
      driver_(comm.engine()) {
  if (comm.is_inter() || comm.size() == 1 || comm.size() > most_members || !on_one_host(comm))
    state_ = State::impossible;
}

void LaneTeam::make(Communicator& comm) {
  comm.lane_state.reset(new LaneTeam(comm));
}

LaneTeam::~LaneTeam() {
  if (state_ != State::ready) return;
  if (rank() == 0) engine_.leave_call_reports(live_);
  // Members come and go at their own pace: the last of all of them has counted up to the size twice.
  const auto everybody = 2 * static_cast<std::uint32_t>(size());
  if (area_.header().members.fetch_add(1, std::memory_order_acq_rel) + 1 == everybody)
    engine_.region().heap().release(offset_, area_.bytes());
}

class LaneTeam::Agreeing {
 public:
  explicit Agreeing(LaneTeam& team) noexcept : team_(team) { team_.state_ = State::agreeing; }
  ~Agreeing() {
    if (team_.state_ != State::agreeing) return;
    team_.state_ = State::failed;
    team_.engine_.wake_threads();
  }
  Agreeing(const Agreeing&) = delete;
  Agreeing& operator=(const Agreeing&) = delete;

 private:
  LaneTeam& team_;
};

void LaneTeam::begin() {
  agreement_.emplace(agree({comm_, Lane::apart(Tag::lanes, driver_)}, *this));
}

Flow LaneTeam::agree(Ranks ranks, LaneTeam& team) {
  const Agreeing agreeing(team);
  wire::RegionHeap heap = team.engine_.region().heap();
  if (ranks.rank() == 0) {
    // Without room the collectives go over messages: slower, and as right.
    const std::uint64_t bytes = team.area_.bytes();
    if (const auto offset = heap.allocate(bytes)) {
      team.offset_ = *offset;
      std::byte* const memory = heap.at(*offset, bytes).data();
      std::memset(memory, 0, team.area_.control_bytes());
      reinterpret_cast<LaneHeader*>(memory)->ways.store(LiveLanes::chooser(team.engine_),
                                                        std::memory_order_relaxed);
    }
  }
  co_await bcast_binomial(ranks, Payload::of(&team.offset_, sizeof team.offset_), 0);
  co_await team.enter();
  team.engine_.wake_threads();
}

/// What it allocates comes first: without memory it has failed, and is not impossible for this member alone.
Result<> LaneTeam::enter() {
  if (offset_ == nowhere) {
    state_ = State::impossible;
    return {};
  }
  auto memory = memory_named_by_rank_0(engine_.region().heap(), offset_, area_.bytes());
  if (!memory) {
    state_ = State::impossible;
    return std::unexpected(std::move(memory).error());
  }
  area_.put_at(*memory);
  nonblocking_.put_at(area_.nonblocking(), rank());
  for (std::uint32_t i = 0; i < persistent_stripes; ++i)
    persistent_[i].put_at(area_.persistent(i), rank());
  const std::uint32_t ways = area_.header().ways.load(std::memory_order_relaxed);
  by_table_ = ways == LaneHeader::by_table;
  live_.open(comm_, ways == LaneHeader::learned);
  if (rank() == 0) engine_.join_call_reports(live_);
  area_.header().members.fetch_add(1, std::memory_order_acq_rel);
  state_ = State::ready;
  return {};
}

/// A member that has not joined yet is tried later: when it asks itself, it wakes the others.
void LaneTeam::try_reach() {
  for (int i = 0; i < size(); ++i)
    if (!engine_.can_try_reach(peer(i))) return;
  bool reach = true;
  for (int i = 0; i < size() && reach; ++i)
    if (i != rank())
      reach = engine_.pull_reach(peer(i)).has_value() && engine_.push_reach(peer(i)).has_value();
  area_.member(rank()).reaches_all.store(reach ? LaneMember::yes : LaneMember::no, std::memory_order_release);
  tried_reach_ = true;
  notify_all();
}

void LaneTeam::try_reach_again() noexcept try { try_reach(); } catch (const std::bad_alloc&) {
  return;  // the next look tries again
}

bool LaneTeam::look_for_direct() noexcept {
  if (direct_) return true;
  if (asks_for_reach_ && !tried_reach_) try_reach_again();
  bool all = true;
  for (int i = 0; i < size(); ++i) {
    const std::uint32_t reach = area_.member(i).reaches_all.load(std::memory_order_acquire);
    if (reach == LaneMember::unknown) return false;
    all = all && reach == LaneMember::yes;
  }
  direct_ = all;
  return true;
}

CallNumber LaneTeam::number(Stripe& stripe, const Lane& lane, const LaneQuestion& asked) noexcept {
  CallNumber found{.number = stripe.number()};
  found.in_class = lane.kind == Lane::Kind::persistent
                       ? static_cast<std::uint32_t>(found.number)
                       : ++numbered_[LiveCalls::class_of(asked.question.collective, asked.question.bytes)];
  return found;
}

LaneTeam::LiveWay LaneTeam::live(const Place& place, const Lane& lane, const CallNumber& number,
                                 const LaneQuestion& asked, bool elementwise, Algorithm by_table) {
  Question question = asked.question;
  question.ranks = size();
  question.shared = true;
  question.direct = *direct_;
  TeamWays possible = ways_of(question, {.elementwise = elementwise}).and_of(ways_in_lanes);
  if (asked.room > most_in_slot(lane.kind)) possible.remove(TeamWay::flat);
  const auto assumed = way_of(by_table, question.collective);
  if (!assumed || !possible.has(*assumed) || possible.count() < 2) return {.algorithm = by_table};
  const std::size_t call_class = LiveCalls::class_of(question.collective, question.bytes);
  const bool is_persistent = lane.kind == Lane::Kind::persistent;
  const std::size_t schedule = is_persistent ? call_classes + lane.number : call_class;
  const LiveLanes::Said said =
      live_.ask({.form = is_persistent ? CallReport::Form::persistent : CallReport::Form::nonblocking,
                 .schedule = schedule,
                 .call_class = call_class,
                 .bytes = question.bytes,
                 .number = number.number,
                 .number_in_class = number.in_class,
                 .assumed = *assumed,
                 .possible = possible},
                area_.schedule(schedule), place.stripe().memory(), comm_);
  if (said.is_in_turn) prepare_turn(said.way, question.bytes);
  LiveWay found{.algorithm = by_table, .measured = said.is_measured ? number.number : 0};
  if (said.way == TeamWay::messages)
    found.algorithm.reset();
  else if (said.way != *assumed)
    found.algorithm = algorithm_of(said.way, question);
  return found;
}

/// Pages that are used for the first time are no part of what a way takes: as in `LiveCalls`.
void LaneTeam::prepare_turn(TeamWay way, std::uint64_t bytes) {
  if (size() > flat_ranks) return;
  const std::uint64_t touched = std::min(bytes * static_cast<unsigned>(size()), slot_bytes);
  if (way == TeamWay::flat && touched > touched_) {
    touched_ = touched;
    for (std::uint64_t slot = 0; slot < long_depth * static_cast<unsigned>(size()); ++slot)
      touch_pages(nonblocking_.memory().long_slots + slot * slot_bytes, touched);
  }
  const std::uint64_t mapped = LiveCalls::mapped_messages * bytes;
  if (way != TeamWay::messages || mapped <= mapped_) return;
  mapped_ = mapped;
  for (int i = 0; i < size(); ++i)
    if (i != rank()) engine_.map_rings(peer(i), mapped);
}

std::uint64_t LaneTeam::most_away() noexcept {
  if (most_away_ == 0) {
    const double nanoseconds = engine_.live_plans().nanoseconds();
    most_away_ = nanoseconds > 0 ? static_cast<std::uint64_t>(away_nanoseconds / nanoseconds) : 0;
  }
  return most_away_;
}

CallTiming::CallTiming(const Place& place, std::uint64_t number) noexcept
    : team_(place.team()),
      stripe_(place.stripe()),
      time_(place.stripe().memory().time(team_.rank(), number)),
      step_(place.step()),
      number_(number),
      is_alone_(team_.measured()++ == 0 && team_.over_messages() == 0 && stripe_.is_only(step_)) {
  LivePlans& plans = team_.engine().live_plans();
  plans.attend(1);
  began_present_ = plans.present();
  began_unsettled_ = team_.engine().eager_plans().unsettled();
  began_ = ticks();
}

CallTiming::~CallTiming() {
  LivePlans& plans = team_.engine().live_plans();
  const std::uint64_t present = plans.present() - began_present_;
  const std::uint64_t ended = ticks();
  const bool is_alone =
      is_alone_ && team_.measured() == 1 && team_.over_messages() == 0 && stripe_.is_last(step_);
  --team_.measured();
  const std::uint64_t took = ended > began_ ? ended - began_ : 0;
  const std::uint64_t away = took > present ? took - present : 0;
  const bool was_there = away <= team_.most_away();
  plans.attend(-1);
  LiveLanes::write_time(time_, number_,
                        {.began = began_,
                         .ended = ended,
                         .teaches = is_alone && was_there,
                         .is_learning = team_.engine().eager_plans().unsettled() != began_unsettled_});
}

void LaneTeam::wake_all() noexcept {
  for (int i = 0; i < size(); ++i)
    if (i != rank()) engine_.notify(peer(i));
}

void LaneTeam::wake_writers() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (area_.header().waiting.load(std::memory_order_seq_cst) != 0) wake_all();
}

}  // namespace isthmus::coll
