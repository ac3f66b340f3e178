#include "coll/lanes/live_lanes.hpp"

#include <atomic>
#include <new>

#include "coll/team/live_calls.hpp"
#include "coll/team/team.hpp"
#include "p2p/engine.hpp"

namespace isthmus::coll {

void LiveLanes::open(const Communicator& comm) {
  speaks_ = comm.rank() == 0;
  const Engine& engine = comm.engine();
  members_ = comm.size();
  is_explained_ = speaks_ && engine.settings().explain != ExplainSetting::off;
  forced_ = way_of(engine.settings().collective_way);
  if (measures_calls(engine)) lessons_ = SharedCallLessons(engine.region().header().call_lessons);
}

std::optional<TeamWay> LiveLanes::wanted(std::size_t call_class, const Communicator& comm) {
  if (forced_) return forced_;
  if (!spread_) spread_ = is_on_several_sockets(comm);
  const auto told = lessons_.read_in_lanes(LiveCalls::kind_of(call_class, comm.size(), *spread_));
  return told ? std::optional(static_cast<TeamWay>(*told)) : std::nullopt;
}

std::optional<TeamWay> LiveLanes::way(ScheduleWord& schedule, std::size_t call_class, const Stripe& stripe,
                                      std::uint64_t step, const Communicator& comm) {
  if (speaks_)
    if (const auto now = wanted(call_class, comm))
      say(schedule, *now, step, stripe.memory().depth, stripe.all_finished());
  return read(schedule, step);
}

void LiveLanes::note(CallReport::Form form, std::size_t call_class, TeamWay assumed, TeamWay taken) noexcept {
  if (!is_explained_) return;
  try {
    Noted& noted = noted_[{form, call_class}];
    noted.assumed = assumed;
    noted.last = taken;
    ++noted.calls[static_cast<std::size_t>(taken)];
  } catch (const std::bad_alloc&) {
    return;  // a report that says less
  }
}

void LiveLanes::add_to(std::vector<CallReport>& reports, double) const {
  for (const auto& [kind, noted] : noted_) {
    const auto [form, call_class] = kind;
    CallReport report{.form = form,
                      .collective = LiveCalls::collective_name(call_class),
                      .members = members_,
                      .up_to = LiveCalls::most_of(call_class),
                      .told = noted.last != noted.assumed,
                      .way = name(noted.last),
                      .assumed = name(noted.assumed),
                      .calls_so = noted.calls[static_cast<std::size_t>(noted.last)]};
    for (std::size_t i = 0; i < team_way_count; ++i) {
      report.calls += noted.calls[i];
      if (noted.calls[i] > 0) report.ways.push_back({.name = name(static_cast<TeamWay>(i))});
    }
    reports.push_back(std::move(report));
  }
}

std::optional<TeamWay> LiveLanes::read(const ScheduleWord& schedule, std::uint64_t step) noexcept {
  const CallSchedule said = CallSchedule::of(schedule.load(std::memory_order_acquire));
  return said.has_begun(static_cast<std::uint32_t>(step)) ? said.after : said.before;
}

void LiveLanes::say(ScheduleWord& schedule, TeamWay way, std::uint64_t step, std::uint64_t depth,
                    std::uint64_t finished) noexcept {
  const std::uint64_t word = schedule.load(std::memory_order_relaxed);
  const CallSchedule said = CallSchedule::of(word);
  if (said.after == way) return;
  if (word != 0 && !said.has_begun(static_cast<std::uint32_t>(finished))) return;
  const CallSchedule next{
      .from = static_cast<std::uint32_t>(step + depth), .before = said.after, .after = way};
  schedule.store(next.packed(), std::memory_order_release);
}

}  // namespace isthmus::coll
