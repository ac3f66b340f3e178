#include "coll/lanes/lane_team.hpp"

#include <cstring>
#include <new>

#include "coll/context/footing.hpp"
#include "coll/flow/ranks.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/team/live_calls.hpp"

namespace isthmus::coll {

LaneTeam::LaneTeam(Communicator& comm)
    : comm_(comm),
      engine_(comm.engine()),
      sleeps_(engine_.peers_sleep()),
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
      std::memset(heap.at(*offset, bytes).data(), 0, team.area_.control_bytes());
    }
  }
  co_await bcast_binomial(ranks, Payload::of(&team.offset_, sizeof team.offset_), 0);
  co_await team.enter();
  team.engine_.wake_threads();
}

Result<> LaneTeam::enter() {
  state_ = State::impossible;
  if (offset_ == nowhere) return {};
  auto memory = memory_named_by_rank_0(engine_.region().heap(), offset_, area_.bytes());
  if (!memory) return std::unexpected(std::move(memory).error());
  area_.put_at(*memory);
  nonblocking_.put_at(area_.nonblocking(), rank());
  for (std::uint32_t i = 0; i < persistent_stripes; ++i)
    persistent_[i].put_at(area_.persistent(i), rank());
  live_.open(comm_);
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

std::optional<Algorithm> LaneTeam::live(const Place& place, const Lane& lane, const LaneQuestion& asked,
                                        bool elementwise, Algorithm by_table) {
  Question question = asked.question;
  question.ranks = size();
  question.shared = true;
  question.direct = *direct_;
  TeamWays possible = ways_of(question, {.elementwise = elementwise}).and_of(ways_in_lanes);
  if (asked.room > most_in_slot(lane.kind)) possible.remove(TeamWay::flat);
  const auto assumed = way_of(by_table, question.collective);
  if (!assumed || !possible.has(*assumed) || possible.count() < 2) return by_table;
  const std::size_t call_class = LiveCalls::class_of(question.collective, question.bytes);
  const bool is_persistent = lane.kind == Lane::Kind::persistent;
  const std::size_t schedule = is_persistent ? call_classes + lane.number : call_class;
  const auto way = live_.way(area_.schedule(schedule), call_class, place.stripe(), place.step(), comm_);
  const TeamWay taken = way && possible.has(*way) ? *way : *assumed;
  live_.note(is_persistent ? CallReport::Form::persistent : CallReport::Form::nonblocking, call_class,
             *assumed, taken);
  if (!way || !possible.has(*way)) return by_table;
  if (*way == TeamWay::messages) return std::nullopt;
  return algorithm_of(*way, question);
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
