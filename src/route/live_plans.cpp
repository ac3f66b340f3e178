#include "route/live_plans.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

namespace isthmus {
namespace {}  // namespace

LivePlans::LivePlans(bool on, SharedLessons shared, Ticks clock, Counted counted) noexcept
    : shared_(shared),
      clock_(clock),
      began_(clock()),
      began_at_(Clock::now()),
      sizes_(on ? new(std::nothrow) Sizes : nullptr),
      by_work_(counted == Counted::work) {}

void LivePlans::take(std::span<const TaughtWay> ways) const noexcept {
  if (!on()) return;
  for (const TaughtWay& each : ways) {
    if (each.from == 0 || each.way >= long_way_count) continue;
    const SharedLessons::Kind kind{
        .far = each.far, .all_ways = each.all_ways, .many = each.many, .size_class = class_of(each.from)};
    if (!shared_.read(kind))
      shared_.write(
          kind,
          {.way = static_cast<LongWay>(each.way), .ticks_per_byte = each.ticks_per_byte, .is_tuned = true});
  }
}

LongWay LivePlans::begin(TransferMark& mark, Nearness nearness, std::uint64_t bytes, LongWay assumed,
                         std::span<const LongWay> possible) noexcept {
  const Kind kind{
      .nearness = nearness, .has_all = possible.size() == long_way_count, .number = class_of(bytes)};
  const auto fits = [&] {
    return batch_.kind.nearness == nearness && batch_.kind.has_all == kind.has_all &&
           (batch_.is_mixed || batch_.kind.number == kind.number);
  };
  const bool is_full = batch_.messages >= longest_batch;
  if (under_way_ == 0) {
    if (is_full || !fits()) close();
  } else if (is_full && !draining_.choice && batch_.choice) {
    notice_habits(batch_);
    draining_ = std::exchange(batch_, {});
    note_measured();
  }
  if (!batch_.choice) {
    if (!open(kind, assumed, possible)) return assumed;
  } else if (fits()) {
    batch_.choice->join();
  } else {
    batch_.has_others = true;
  }
  mark = {.epoch = epoch_, .batch = batch_.number, .work = 0};
  ++under_way_;
  ++batch_.under_way;
  batch_.bytes += bytes;
  batch_.varies |= batch_.first != kind.number;
  const bool is_tried = batch_.messages++ < batch_.turn.most;
  if (!fits()) {
    const WayChoice* const own = find(kind, false, size_of(kind, false).many, assumed, possible);
    return own ? own->way() : assumed;
  }
  const LongWay way = is_tried ? batch_.turn.way : batch_.choice->way();
  if (!is_tried) batch_.other_bytes += bytes;
  if (way != LongWay::stream || !senders_compute()) return way;
  batch_.is_spoiled = true;
  return assumed;
}

/// Begins a batch with the next message. False without memory.
bool LivePlans::open(const Kind& kind, LongWay assumed, std::span<const LongWay> possible) noexcept {
  Batch batch;
  batch.kind = kind;
  batch.first = kind.number;
  batch.is_mixed = mixed_;
  if (mixed_) batch.kind.number = class_of(mean_);
  batch.many = size_of(batch.kind, mixed_).many;
  batch.choice = find(batch.kind, mixed_, batch.many, assumed, possible);
  if (!batch.choice) return false;
  const std::uint32_t trials = batch.choice->trials();
  batch.turn = batch.choice->next();
  if (batch.choice->trials() != trials) share(batch);
  batch.is_measured = batch.turn.weight != WayChoice::Weight::none;
  batch.number = ++last_number_;
  batch_ = batch;
  note_measured();
  if (!draining_.choice) begin_measuring();
  return true;
}

/// Nothing of what was before is under way any more.
void LivePlans::begin_measuring() noexcept {
  if (!batch_.is_measured) return;
  come();
  batch_.absent = absent_;
  batch_.began = clock_();
}

WayChoice* LivePlans::find(const Kind& kind, bool mixed, bool many, LongWay assumed,
                           std::span<const LongWay> possible) noexcept {
  auto& choice = size_of(kind, mixed).choices[static_cast<std::size_t>(many)];
  if (choice) return choice.get();
  std::optional<WayChoice::Hint> hint;
  if (const auto told = mixed ? std::nullopt
                              : shared_.read({.far = kind.nearness == Nearness::far,
                                              .all_ways = kind.has_all,
                                              .many = many,
                                              .size_class = kind.number}))
    hint = {.way = told->way, .ticks_per_byte = told->ticks_per_byte, .is_tuned = told->is_tuned};
  choice.reset(new (std::nothrow) WayChoice(assumed, possible, hint));
  return choice.get();
}

void LivePlans::end(TransferMark& mark, std::uint64_t bytes) noexcept {
  if (std::exchange(mark.epoch, 0) != epoch_) return;
  Batch& batch = batch_of(mark);
  --under_way_;
  --batch.under_way;
  if (batch.began != 0) {
    batch.ended_bytes += bytes;
    batch.work += mark.work;
  }
  if (batch.under_way != 0) return;
  if (batch.is_measured && batch.began != 0) {
    batch.ended = clock_();
    batch.absent_at_end = absent_;
  }
  if (&batch != &draining_) return;
  const Batch done = std::exchange(draining_, {});
  note_measured();
  learn(done);
  if (batch_.choice) begin_measuring();
}

/// None of its messages is under way.
void LivePlans::close() noexcept {
  if (!batch_.choice) return;
  const Batch batch = std::exchange(batch_, {});
  note_measured();
  notice_habits(batch);
  learn(batch);
}

/// In what company messages come, which tells whose plan the next batch is.
void LivePlans::notice_habits(const Batch& batch) noexcept {
  Size& size = size_of(batch.kind, batch.is_mixed);
  if (batch.messages >= many_from) size.many = true;
  if (batch.messages == 1) size.many = false;
  mixed_ = batch.varies;
  mean_ = batch.bytes / batch.messages;
}

void LivePlans::learn(const Batch& batch) const noexcept {
  if (!batch.is_measured || batch.is_spoiled || batch.has_others || batch.began == 0) return;
  // What came while an earlier batch was still under way counts from its end on.
  if (batch.ended_bytes < batch.bytes && (batch.ended_bytes < batch.bytes / 2 || batch.other_bytes != 0))
    return;
  if (batch.many ? batch.messages == 1 : batch.messages >= many_from) return;
  const std::uint64_t spent = batch.ended > batch.began ? batch.ended - batch.began : 0;
  const std::uint64_t away = batch.absent_at_end - batch.absent;
  const auto passed = static_cast<double>(spent - std::min(spent, away));
  batch.choice->took(batch.turn, {.ticks = by_work_ ? static_cast<double>(batch.work) : passed,
                                  .passed = by_work_ ? passed : 0,
                                  .bytes = batch.ended_bytes,
                                  .messages = batch.messages,
                                  .other_bytes = batch.other_bytes});
}

/// What a trial has found.
void LivePlans::share(const Batch& batch) const noexcept {
  if (batch.is_mixed) return;
  const LongWay way = batch.choice->way();
  shared_.write({.far = batch.kind.nearness == Nearness::far,
                 .all_ways = batch.kind.has_all,
                 .many = batch.many,
                 .size_class = batch.kind.number},
                {.way = way, .ticks_per_byte = batch.choice->predicted(way)});
}

double LivePlans::nanoseconds() const noexcept {
  const double passed = std::chrono::duration<double, std::nano>(Clock::now() - began_at_).count();
  const std::uint64_t now = clock_();
  return now > began_ ? passed / static_cast<double>(now - began_) : 0;
}

void LivePlans::forget() noexcept {
  ++epoch_;
  under_way_ = 0;
  attended_ = lingering_ = 0;
  batch_ = draining_ = {};
  note_measured();
}

void LivePlans::come_back() noexcept {
  const std::uint64_t left = std::exchange(left_, 0);
  const std::uint64_t now = clock_();
  if (now > left) absent_ += now - left;
}

std::vector<LivePlans::Report> LivePlans::report() const {
  std::vector<Report> reports;
  if (!sizes_) return reports;
  const double microseconds = nanoseconds() / 1000;
  for (const bool mixed : {false, true})
    for (const Nearness nearness : {Nearness::near, Nearness::far})
      for (const bool has_all : {false, true})
        for (const bool many : {false, true})
          for (std::size_t number = 0; number < classes; ++number) {
            const Size& size = (*sizes_)[static_cast<std::size_t>(mixed)][static_cast<std::size_t>(nearness)]
                                        [static_cast<std::size_t>(has_all)][number];
            const WayChoice* const choice = size.choices[static_cast<std::size_t>(many)].get();
            if (!choice || !choice->is_settled()) continue;
            Report report{.nearness = nearness,
                          .from = least_of(number),
                          .has_all_ways = has_all,
                          .many = many,
                          .mixed = mixed};
            fill_report(report, *choice, microseconds * static_cast<double>(report.from));
            reports.push_back(report);
          }
  return reports;
}

}  // namespace isthmus
