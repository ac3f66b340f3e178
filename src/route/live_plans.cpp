#include "route/live_plans.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace isthmus {
namespace {

/// Messages that follow each other without a pause are measured together up to here.
constexpr std::uint32_t longest_batch = 64;

}  // namespace

LongWay LivePlans::begin(TransferMark& mark, Nearness nearness, std::uint64_t bytes, LongWay assumed,
                         std::span<const LongWay> possible) noexcept {
  WayChoice* const choice = find(nearness, bytes, assumed, possible);
  if (!choice) return assumed;
  if (under_way_ == 0 && (batch_.choice != choice || batch_.messages >= longest_batch)) close();
  if (!batch_.choice) {
    batch_ = {.choice = choice, .turn = choice->next()};
    batch_.is_measured = batch_.turn.weight != WayChoice::Weight::none;
    if (batch_.is_measured) {
      come();
      batch_.absent = absent_;
      batch_.began = ticks();
    }
  } else if (batch_.choice == choice) {
    choice->join();
  }
  mark.epoch = epoch_;
  ++under_way_;
  if (batch_.choice != choice) {
    batch_.is_spoiled = true;
    return choice->way();
  }
  ++batch_.messages;
  batch_.bytes += bytes;
  return batch_.turn.way;
}

WayChoice* LivePlans::find(Nearness nearness, std::uint64_t bytes, LongWay assumed,
                           std::span<const LongWay> possible) noexcept {
  const bool has_all = possible.size() == long_way_count;
  auto& choice =
      choices_[static_cast<std::size_t>(nearness)][static_cast<std::size_t>(has_all)][class_of(bytes)];
  if (!choice) choice.reset(new (std::nothrow) WayChoice(assumed, possible));
  return choice.get();
}

void LivePlans::end(TransferMark& mark) noexcept {
  if (std::exchange(mark.epoch, 0) != epoch_) return;
  if (--under_way_ != 0 || !batch_.is_measured) return;
  batch_.ended = ticks();
  batch_.absent_at_end = absent_;
}

void LivePlans::close() noexcept {
  const Batch batch = std::exchange(batch_, {});
  if (!batch.is_measured || batch.is_spoiled) return;
  const std::uint64_t spent = batch.ended > batch.began ? batch.ended - batch.began : 0;
  const std::uint64_t away = batch.absent_at_end - batch.absent;
  batch.choice->took(batch.turn, {.ticks = static_cast<double>(spent - std::min(spent, away)),
                                  .bytes = batch.bytes,
                                  .messages = batch.messages});
}

void LivePlans::forget() noexcept {
  ++epoch_;
  under_way_ = 0;
  batch_ = {};
}

void LivePlans::come_back() noexcept {
  const std::uint64_t left = std::exchange(left_, 0);
  const std::uint64_t now = ticks();
  if (now > left) absent_ += now - left;
}

std::vector<LivePlans::Report> LivePlans::report() const {
  const double microseconds = std::chrono::duration<double, std::micro>(Clock::now() - began_at_).count();
  const std::uint64_t passed = ticks() - began_;
  const double unit = passed == 0 ? 0 : microseconds / static_cast<double>(passed);
  std::vector<Report> reports;
  for (std::size_t nearness = 0; nearness < nearness_count; ++nearness)
    for (std::size_t has_all = 0; has_all < 2; ++has_all)
      for (std::size_t number = 0; number < classes; ++number) {
        const WayChoice* const choice = choices_[nearness][has_all][number].get();
        if (!choice || !choice->is_settled()) continue;
        const std::uint64_t from = least_of(number);
        Report report{.nearness = static_cast<Nearness>(nearness),
                      .from = from,
                      .has_all_ways = has_all == 1,
                      .way = choice->way(),
                      .assumed = choice->assumed(),
                      .messages = choice->messages()};
        for (std::size_t way = 0; way < long_way_count; ++way)
          report.times[way] = {
              .predicted = choice->predicted(static_cast<LongWay>(way)) * unit * static_cast<double>(from),
              .measured = choice->measured(static_cast<LongWay>(way)) * unit * static_cast<double>(from)};
        reports.push_back(report);
      }
  return reports;
}

}  // namespace isthmus
