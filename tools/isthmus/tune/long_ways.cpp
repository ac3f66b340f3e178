#include "tune/long_ways.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

#include "base/ticks.hpp"
#include "route/tuning.hpp"
#include "route/way_choice.hpp"
#include "tune/tuning_questions.hpp"

namespace isthmus::tool {
namespace {

constexpr std::array<std::string_view, 2> data_kinds{"fresh", "same"};
/// From so many runs on, the extreme ones do not count.
constexpr std::size_t enough_to_trim = 5;

/// In the order of `LongWay`.
std::vector<Way> all_ways() {
  const std::string no_eager = "ISTHMUS_EAGER_LIMIT=1";
  const std::string none_of_many = "ISTHMUS_BANDWIDTH_EAGER_LIMIT=1";
  return {{std::string(tuning::long_ways[0]), {no_eager, none_of_many, "ISTHMUS_SPLIT_FROM=1"}},
          {std::string(tuning::long_ways[1]), {no_eager, none_of_many, "ISTHMUS_SPLIT_FROM=1G"}},
          {std::string(tuning::long_ways[2]), {no_eager, none_of_many, "ISTHMUS_CMA=off"}}};
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Ticks of a microsecond.
double ticks_per_microsecond() {
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t before = ticks();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::uint64_t passed = ticks() - before;
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  return static_cast<double>(passed) / took.count();
}

/// What was measured in one regime.
struct Regime {
  Curve curve;
  /// By size, way and run.
  std::vector<std::vector<std::vector<double>>> times;
  std::vector<Contest> contests;  ///< by size
};

std::expected<Regime, std::string> measure_regime(bool many, std::string_view data, const Rounds& rounds,
                                                  ProgressBar& bar) {
  Regime regime;
  regime.curve = {.name = fmt::format("long messages, {}, {}", many ? "64 under way" : "one at a time",
                                      data == "fresh" ? "fresh data" : "the same buffers"),
                  .many = many,
                  .data = std::string(data),
                  .sizes = rounds.sizes,
                  .ways = all_ways()};
  regime.times.assign(rounds.sizes.size(), std::vector<std::vector<double>>(regime.curve.ways.size()));
  for (int round = 0; round < rounds.most; ++round) {
    for (std::size_t way = 0; way < regime.curve.ways.size(); ++way) {
      bar.begin_job(regime.curve.name);
      const auto times = measure_once(regime.curve, regime.curve.ways[way], rounds.batches);
      if (!times) return std::unexpected(times.error());
      for (std::size_t size = 0; size < times->size(); ++size)
        regime.times[size][way].push_back((*times)[size]);
    }
    regime.contests.clear();
    for (const auto& times : regime.times)
      regime.contests.push_back(contest_of(times));
    if (round + 1 >= rounds.least && std::ranges::all_of(regime.contests, &Contest::decided)) break;
  }
  return regime;
}

void print(const Regime& regime) {
  fmt::print("\n{} (us a message)\n{:>10}", regime.curve.name, "size");
  for (const Way& way : regime.curve.ways)
    fmt::print("{:>16}", way.label);
  fmt::print("\n");
  for (std::size_t size = 0; size < regime.contests.size(); ++size) {
    const Contest& contest = regime.contests[size];
    fmt::print("{:>10}", size_text(regime.curve.sizes[size]));
    for (const auto& times : regime.times[size])
      fmt::print("{:>16.2f}", median_of(times));
    if (contest.decided())
      fmt::print("   {}: {:.2f} to {:.2f} of the next\n", regime.curve.ways[contest.best].label, contest.low,
                 contest.high);
    else
      fmt::print("   not decided: {} takes {:.2f} to {:.2f} of {}\n", regime.curve.ways[contest.best].label,
                 contest.low, contest.high, regime.curve.ways[contest.second].label);
  }
  std::fflush(stdout);
}

}  // namespace

Contest contest_of(std::span<const std::vector<double>> times) {
  std::vector<double> medians;
  medians.reserve(times.size());
  for (const auto& of_way : times)
    medians.push_back(median_of(of_way));
  Contest contest;
  contest.best = static_cast<std::size_t>(std::ranges::min_element(medians) - medians.begin());
  contest.second = contest.best == 0 ? 1 : 0;
  for (std::size_t way = 0; way < medians.size(); ++way)
    if (way != contest.best && medians[way] < medians[contest.second]) contest.second = way;
  std::vector<double> ratios;
  ratios.reserve(times[contest.best].size());
  for (std::size_t run = 0; run < times[contest.best].size(); ++run)
    ratios.push_back(times[contest.best][run] / times[contest.second][run]);
  std::ranges::sort(ratios);
  const std::size_t left_out = ratios.size() >= enough_to_trim ? 1 : 0;
  contest.low = ratios[left_out];
  contest.high = ratios[ratios.size() - 1 - left_out];
  return contest;
}

std::size_t jobs_for(const Rounds& rounds) {
  return 2 * data_kinds.size() * long_way_count * static_cast<std::size_t>(rounds.most);
}

std::expected<std::vector<Taught>, std::string> ask_long_ways(const Rounds& rounds, ProgressBar& bar) {
  std::vector<Taught> taught;
  const double unit = ticks_per_microsecond();
  for (const bool many : {false, true}) {
    std::vector<Regime> regimes;
    regimes.reserve(data_kinds.size());
    for (const std::string_view data : data_kinds) {
      auto regime = measure_regime(many, data, rounds, bar);
      if (!regime) return std::unexpected(regime.error());
      bar.hide();
      print(*regime);
      regimes.push_back(std::move(*regime));
    }
    for (std::size_t size = 0; size < rounds.sizes.size(); ++size) {
      const Contest& fresh = regimes[0].contests[size];
      const Contest& same = regimes[1].contests[size];
      if (!fresh.decided() || !same.decided() || fresh.best != same.best) continue;
      const double microseconds =
          (median_of(regimes[0].times[size][fresh.best]) + median_of(regimes[1].times[size][fresh.best])) / 2;
      taught.push_back(
          {.from = rounds.sizes[size],
           .several = many,
           .verdict = {.way = std::string(tuning::long_ways[fresh.best]),
                       .ticks_per_byte = microseconds * unit / static_cast<double>(rounds.sizes[size])}});
    }
  }
  return taught;
}

}  // namespace isthmus::tool
