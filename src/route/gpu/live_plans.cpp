#include "route/gpu/live_plans.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace isthmus {

static_assert(wire::gpu_lesson_words == gpu_route_count * 2 * 2 * SharedGpuLessons::size_classes);

std::atomic<std::uint64_t>* SharedGpuLessons::word_of(const GpuMessageKind& kind, bool many) const noexcept {
  if (words_.empty() || kind.size_class >= size_classes) return nullptr;
  const std::size_t row =
      static_cast<std::size_t>(kind.route) * 4 + (kind.has_gaps ? 2U : 0U) + (many ? 1U : 0U);
  return &words_[row * size_classes + kind.size_class];
}

std::optional<SharedGpuLessons::Lesson> SharedGpuLessons::read(const GpuMessageKind& kind,
                                                               bool many) const noexcept {
  return read_lesson<Lesson>(word_of(kind, many), gpu_way_count);
}

void SharedGpuLessons::write(const GpuMessageKind& kind, bool many, const Lesson& lesson) const noexcept {
  write_lesson(word_of(kind, many), lesson);
}

void LiveGpuPlans::take(std::span<const TaughtGpu> ways) const noexcept {
  if (!on_) return;
  for (const TaughtGpu& each : ways) {
    if (each.from == 0 || each.way >= gpu_way_count || each.route >= gpu_route_count) continue;
    const std::size_t size_class = LivePlans::class_of(each.from);
    if (size_class >= classes) continue;
    const GpuMessageKind kind{.route = static_cast<GpuRoute>(each.route),
                              .has_gaps = each.has_gaps,
                              .size_class = static_cast<std::uint8_t>(size_class)};
    if (!shared_.read(kind, each.many))
      shared_.write(
          kind, each.many,
          {.way = static_cast<GpuWay>(each.way), .ticks_per_byte = each.ticks_per_byte, .is_tuned = true});
  }
}

GpuWay LiveGpuPlans::begin(GpuTransferMark& mark, GpuRoute route, bool has_gaps, std::uint64_t bytes,
                           GpuWays ways) noexcept {
  mark = {};
  const std::size_t number = LivePlans::class_of(bytes);
  if (number >= classes) return ways.assumed;
  if (!sizes_) sizes_.reset(new (std::nothrow) Sizes);
  if (!sizes_) return ways.assumed;
  const GpuMessageKind kind{
      .route = route, .has_gaps = has_gaps, .size_class = static_cast<std::uint8_t>(number)};
  Size& size = (*sizes_)[static_cast<std::size_t>(route)][has_gaps ? 1 : 0][number];
  if (batch_.messages >= longest_batch) drain();
  GpuChoice* const choice = find(size, kind, ways);
  if (!choice) return stray(mark, nullptr, ways);
  if (batch_.choice == choice) {
    choice->join();
  } else if (batch_.choice) {
    batch_.is_spoiled = true;
    return stray(mark, choice, ways);
  } else {
    open(size, kind, *choice);
    if (!batch_.choice) return stray(mark, choice, ways);
  }
  mark = {.epoch = epoch_, .batch = batch_.number};
  ++batch_.under_way;
  batch_.bytes += bytes;
  if (batch_.messages++ < batch_.turn.most) return batch_.turn.way;
  batch_.other_bytes += bytes;
  return choice->way();
}

/// No more messages for the batch, some of which are still under way.
void LiveGpuPlans::drain() noexcept {
  // Of the one before it, which has been under way for so long, nobody has told the end.
  if (draining_.choice) return forget();
  draining_ = std::exchange(batch_, {});
  draining_.size->many = true;
}

/// A message of which nothing is learned, and that may spoil what is learned of others.
GpuWay LiveGpuPlans::stray(GpuTransferMark& mark, const GpuChoice* choice, GpuWays ways) noexcept {
  mark = {.epoch = epoch_, .batch = 0};
  ++strays_;
  return choice ? choice->way() : ways.assumed;
}

/// Null where its ways are others than those of its kind so far, or without memory.
GpuChoice* LiveGpuPlans::find(Size& size, const GpuMessageKind& kind, GpuWays ways) noexcept {
  // While a batch is under way, it stays what it is.
  const bool many = batch_.size == &size && batch_.choice ? batch_.many : size.many;
  Plan& plan = size.plans[many ? 1 : 0];
  if (plan.choice && plan.ways == ways) [[likely]] {
    plan.misfits = 0;
    return plan.choice.get();
  }
  if (plan.choice) {
    if (++plan.misfits < most_misfits) return nullptr;
    forget();
  }
  std::array<GpuWay, gpu_way_count> possible{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < gpu_way_count; ++i)
    if (const auto way = static_cast<GpuWay>(i); ways.has(way)) possible[count++] = way;
  std::optional<GpuChoice::Hint> hint;
  if (const auto told = shared_.read(kind, many))
    hint = {.way = told->way, .ticks_per_byte = told->ticks_per_byte, .is_tuned = told->is_tuned};
  plan = {.choice = std::unique_ptr<GpuChoice>(
              new (std::nothrow) GpuChoice(ways.assumed, std::span(possible).first(count), hint)),
          .ways = ways};
  return plan.choice.get();
}

/// Begins a batch with the next message; none with one that comes alone and need not be measured, which goes
/// the chosen way: that takes a hundred instructions less.
void LiveGpuPlans::open(Size& size, const GpuMessageKind& kind, GpuChoice& choice) noexcept {
  const bool many = size.many;
  const std::uint32_t trials = choice.trials();
  const GpuChoice::Turn turn = choice.next();
  if (choice.trials() != trials)
    shared_.write(kind, many, {.way = choice.way(), .ticks_per_byte = choice.predicted(choice.way())});
  if (turn.weight == GpuChoice::Weight::none && !many) {
    if (strays_ + 1 >= many_from) size.many = true;
    return;
  }
  disturbed_ = strays_ != 0 ? disturbed_ + 1 : 0;
  if (disturbed_ >= most_disturbed) forget();
  batch_ = {
      .choice = &choice, .size = &size, .kind = kind, .many = many, .turn = turn, .is_spoiled = strays_ != 0};
  batch_.number = ++last_number_;
  if (batch_.number == 0) batch_.number = last_number_ = 1;
  batch_.is_measured = batch_.turn.weight != GpuChoice::Weight::none;
  if (!batch_.is_measured) return;
  clock_.attend(1);
  if (!draining_.choice) batch_.began = clock_.present();
}

void LiveGpuPlans::end(GpuTransferMark& mark, std::uint64_t bytes, bool is_spoiled) noexcept {
  const GpuTransferMark ended = std::exchange(mark, {});
  if (ended.epoch != epoch_) return;
  if (ended.batch == 0) {
    --strays_;
    return;
  }
  Batch& batch = draining_.choice && ended.batch == draining_.number ? draining_ : batch_;
  batch.is_spoiled |= is_spoiled;
  if (batch.began != 0) batch.ended_bytes += bytes;
  if (--batch.under_way != 0) return;
  const bool is_before = &batch == &draining_;
  if (!is_before) {
    if (batch.messages >= many_from) batch.size->many = true;
    if (batch.messages == 1) batch.size->many = false;
  }
  learn(std::exchange(batch, {}));
  if (is_before && batch_.choice && batch_.is_measured) batch_.began = clock_.present();
}

/// Its last message has come.
void LiveGpuPlans::learn(const Batch& batch) noexcept {
  if (!batch.is_measured) return;
  const std::uint64_t now = clock_.present();
  clock_.attend(-1);
  if (batch.is_spoiled || batch.began == 0) return;
  // What came while an earlier batch was still under way counts from its end on.
  if (batch.ended_bytes < batch.bytes && (batch.ended_bytes < batch.bytes / 2 || batch.other_bytes != 0))
    return;
  if (batch.many ? batch.messages == 1 : batch.messages >= many_from) return;
  batch.choice->took(batch.turn, {.ticks = now > batch.began ? static_cast<double>(now - batch.began) : 0,
                                  .passed = 0,
                                  .bytes = batch.ended_bytes,
                                  .messages = batch.messages,
                                  .other_bytes = batch.other_bytes});
}

void LiveGpuPlans::forget() noexcept {
  for (const Batch* each : {&batch_, &draining_})
    if (each->choice && each->is_measured) clock_.attend(-1);
  batch_ = draining_ = {};
  strays_ = disturbed_ = 0;
  ++epoch_;
}

std::vector<LiveGpuPlans::Report> LiveGpuPlans::report() const {
  std::vector<Report> reports;
  if (!sizes_) return reports;
  const double microseconds = clock_.nanoseconds() / 1000;
  for (std::size_t route = 0; route < gpu_route_count; ++route)
    for (const bool has_gaps : {false, true})
      for (const bool many : {false, true})
        for (std::size_t number = 0; number < classes; ++number) {
          const GpuChoice* const choice =
              (*sizes_)[route][has_gaps ? 1 : 0][number].plans[many ? 1 : 0].choice.get();
          if (!choice || !choice->is_settled()) continue;
          Report report{.kind = {.route = static_cast<GpuRoute>(route),
                                 .has_gaps = has_gaps,
                                 .size_class = static_cast<std::uint8_t>(number)},
                        .from = LivePlans::least_of(number),
                        .many = many};
          fill_report(report, *choice, microseconds * static_cast<double>(report.from));
          reports.push_back(report);
        }
  return reports;
}

}  // namespace isthmus
