#include "route/eager_plans.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <utility>

namespace isthmus {
namespace {

constexpr std::array both{EagerWay::eager, EagerWay::rendezvous};

}  // namespace

EagerChoice* EagerPlans::find(const Kind& kind, EagerWay assumed) noexcept {
  std::unique_ptr<EagerChoice>& choice = size_of(kind).choices[static_cast<std::size_t>(kind.several)];
  if (choice) return choice.get();
  std::optional<EagerChoice::Hint> hint;
  if (const auto told = shared_.read(shared_kind(kind)))
    hint = {.way = told->way, .ticks_per_byte = told->ticks_per_byte, .is_tuned = told->is_tuned};
  const bool waits = assumed == EagerWay::rendezvous && !hint;
  if (!kind.several) size_of(kind).is_early = waits;
  const std::uint32_t first = !kind.several || hint ? EagerChoice::patience
                              : waits               ? patience_of_rendezvous
                                                    : patience_of_several;
  choice.reset(new (std::nothrow)
                   EagerChoice(assumed, both, hint, first - std::min(first, gone_as_assumed(kind))));
  return choice.get();
}

/// Messages of that size class that have gone before those of this kind came, with the other number under
/// way.
std::uint32_t EagerPlans::gone_as_assumed(const Kind& kind) noexcept {
  const EagerChoice* const other = size_of(kind).choices[static_cast<std::size_t>(!kind.several)].get();
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  return other ? static_cast<std::uint32_t>(std::min(other->messages(), most)) : 0;
}

/// The trial that did not wait for receivers is over.
void EagerPlans::judge_early(const Kind& kind, EagerChoice& choice) noexcept {
  size_of(kind).is_early = false;
  if (choice.way() == EagerWay::eager &&
      choice.least_predicted(EagerWay::rendezvous) > clearly * choice.predicted(EagerWay::eager))
    return share(kind, choice);
  const auto gone =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(choice.messages(), patience_of_rendezvous));
  choice = EagerChoice(choice.assumed(), both, std::nullopt, patience_of_rendezvous - gone);
}

void EagerPlans::take(std::span<const TaughtEager> ways) const noexcept {
  for (const TaughtEager& each : ways) {
    if (!covers(each.from) || each.way >= eager_way_count) continue;
    const SharedEagerLessons::Kind kind{.far = each.far,
                                        .nonblocking = each.nonblocking,
                                        .several = each.several,
                                        .size_class = LivePlans::class_of(each.from) - first_class};
    if (!shared_.read(kind))
      shared_.write(
          kind,
          {.way = static_cast<EagerWay>(each.way), .ticks_per_byte = each.ticks_per_byte, .is_tuned = true});
  }
}

EagerPlans::Fate EagerPlans::begin(const Sending& sending) noexcept {
  if (run_.choice) end_run();
  const bool has_told = sending.report != 0 && batch_.choice && batch_.to == sending.to;
  const Heard heard = has_told ? hear(sending.report) : Heard();
  Kind kind{.nearness = sending.nearness,
            .start = sending.start,
            .several = false,
            .number = LivePlans::class_of(sending.bytes)};
  kind.several = size_of(kind).several;
  EagerChoice* const choice = find(kind, sending.assumed_eager ? EagerWay::eager : EagerWay::rendezvous);
  if (!choice) return {.is_eager = sending.assumed_eager};
  if (is_early(kind) && choice->trials() > 0 && !batch_.choice) [[unlikely]]
    judge_early(kind, *choice);
  unsettled_ += choice->is_settled() ? 0 : 1;
  if (!batch_.choice) return open(sending, kind, *choice, heard);
  return join(sending, batch_.choice == choice && batch_.to == sending.to, *choice);
}

/// A message that finds no batch under way.
EagerPlans::Fate EagerPlans::open(const Sending& sending, const Kind& kind, EagerChoice& choice,
                                  const Heard& heard) noexcept {
  if (heard.expects == &choice) return begin_batch(sending, kind, choice, heard.turn, false);
  const std::uint32_t trials = choice.trials();
  const EagerChoice::Turn turn = choice.next();
  if (choice.trials() != trials && !is_early(kind)) share(kind, choice);
  const Fate unmeasured{.is_eager = turn.way == EagerWay::eager};
  const bool is_usual = choice.is_settled() && turn.way == choice.way();
  const bool is_counted = turn.weight != EagerChoice::Weight::none;
  if (is_usual && (!is_counted || until_measured_ > 0)) {
    if (is_counted) --until_measured_;
    begin_run(sending, choice);
    return unmeasured;
  }
  if (!is_counted) return unmeasured;
  return begin_batch(sending, kind, choice, turn, !heard.is_over);
}

/// Messages as this one need not be asked about for a while.
void EagerPlans::begin_run(const Sending& sending, EagerChoice& choice) noexcept {
  const std::uint32_t length = std::min(longest_run, choice.may_pass(until_measured_));
  run_ = {.choice = &choice,
          .bytes = sending.bytes,
          .to = sending.to,
          .length = length,
          .left = length,
          .start = sending.start,
          .is_eager = choice.way() == EagerWay::eager};
}

/// As if those that have gone had been asked about.
void EagerPlans::end_run() noexcept {
  const Run run = std::exchange(run_, {});
  until_measured_ -= std::min(until_measured_, run.choice->pass(run.length - run.left));
}

EagerPlans::Fate EagerPlans::begin_batch(const Sending& sending, const Kind& kind, EagerChoice& choice,
                                         const EagerChoice::Turn& turn, bool is_before) noexcept {
  if (++last_mark_ == 0) ++last_mark_;
  batch_ = {.choice = &choice,
            .kind = kind,
            .to = sending.to,
            .turn = turn,
            .is_before = is_before,
            .mark = last_mark_,
            .messages = 1,
            .bytes = sending.bytes};
  return {.is_eager = (is_before ? choice.way() : turn.way) == EagerWay::eager, .mark = last_mark_};
}

/// One that comes while a batch is.
EagerPlans::Fate EagerPlans::join(const Sending& sending, bool is_of_batch, EagerChoice& choice) noexcept {
  const bool is_tried = is_of_batch && !batch_.is_before && batch_.messages < batch_.turn.most;
  const Fate fate{.is_eager = (is_tried ? batch_.turn.way : choice.way()) == EagerWay::eager};
  if (is_of_batch && !batch_.is_before) choice.join();
  if (!is_of_batch || batch_.messages == longest_batch) {
    if (++batch_.behind > most_behind) give_up();
    return fate;
  }
  ++batch_.messages;
  batch_.bytes += sending.bytes;
  if (!is_tried) batch_.other_bytes += sending.bytes;
  return {.is_eager = fate.is_eager, .mark = batch_.mark};
}

void EagerPlans::note_written(std::uint16_t mark, std::uint64_t began, std::uint32_t pieces) noexcept {
  if (!batch_.choice || mark != batch_.mark) return;
  const std::uint64_t now = clock_();
  const std::uint64_t took = now > began ? now - began : 0;
  batch_.wrote_at = now;
  batch_.write_took = took;
  batch_.written += took;
  batch_.written_first += took / pieces;
}

/// Where the receiver says that all of the batch are there, it is over.
EagerPlans::Heard EagerPlans::hear(std::uint64_t report) noexcept {
  const auto told = wire::BatchReport::of(report);
  if (told.mark != batch_.mark || told.count != batch_.messages) return {};
  const Batch batch = std::exchange(batch_, {});
  lost_ = 0;
  const bool several = batch.messages >= several_from;
  // One that has begun in the midst of others may have been cut short, and has no more than it seems.
  if (batch.kind.start == Start::nonblocking && (several || !batch.is_before)) {
    size_of(batch.kind).several = several;
    // Another plan's. Of a turn that it was to have nothing is known, as of a batch that is given up.
    if (several != batch.kind.several) return {.is_over = true, .expects = nullptr, .turn = {}};
  }
  if (batch.is_before) return {.is_over = true, .expects = batch.choice, .turn = batch.turn};
  const std::uint64_t ticks =
      several ? std::max<std::uint64_t>(batch.written, told.ticks) : batch.written_first + told.ticks;
  batch.choice->took(batch.turn, {.ticks = static_cast<double>(ticks),
                                  .bytes = batch.bytes,
                                  .messages = batch.messages,
                                  .other_bytes = batch.other_bytes});
  note_measured(batch, static_cast<double>(ticks) / static_cast<double>(batch.bytes));
  return {.is_over = true, .expects = nullptr, .turn = {}};
}

/// What takes longer than has been predicted is looked at again at once: drift is to be seen soon.
void EagerPlans::note_measured(const Batch& batch, double ticks_per_byte) noexcept {
  const EagerChoice& choice = *batch.choice;
  const bool is_drift = ticks_per_byte > EagerChoice::drifted * choice.predicted(choice.way());
  until_measured_ = is_drift ? 0 : unmeasured_for_each * batch.messages;
}

void EagerPlans::give_up() noexcept {
  batch_ = {};
  if (++lost_ == most_lost) span_ = 0;
}

/// What a trial has found.
void EagerPlans::share(const Kind& kind, const EagerChoice& choice) const noexcept {
  const EagerWay way = choice.way();
  shared_.write(shared_kind(kind), {.way = way, .ticks_per_byte = choice.predicted(way)});
}

std::vector<EagerPlans::Report> EagerPlans::report(double nanoseconds) const {
  std::vector<Report> reports;
  for (const Nearness nearness : {Nearness::near, Nearness::far})
    for (const Start start : {Start::blocking, Start::nonblocking})
      for (const bool several : {false, true})
        for (std::size_t i = 0; i < classes; ++i) {
          const Size& size = sizes_[static_cast<std::size_t>(nearness)][static_cast<std::size_t>(start)][i];
          const EagerChoice* const choice = size.choices[static_cast<std::size_t>(several)].get();
          if (!choice || !choice->is_settled()) continue;
          Report report{.nearness = nearness,
                        .start = start,
                        .several = several,
                        .from = LivePlans::least_of(first_class + i)};
          fill_report(report, *choice, nanoseconds / 1000 * static_cast<double>(report.from));
          reports.push_back(report);
        }
  return reports;
}

}  // namespace isthmus
