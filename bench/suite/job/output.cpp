#include "suite/job/output.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace isthmus::bench {
namespace {

constexpr int column = 18;

int print_column(const std::string& text) {
  return std::printf("%*s", column, text.c_str());
}

// Four significant digits at least, and two after the point, as the OSU suite has them.
std::string figure_text(double value) {
  const double size = std::abs(value);
  const int digits = size < 1 ? 4 : size < 10 ? 3 : 2;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string percentile_title(int percentile) {
  return "P" + std::to_string(percentile);
}

}  // namespace

double figure_of(double seconds, const Meaning& meaning) {
  const double time = seconds * meaning.share;
  switch (meaning.quantity) {
    case Quantity::microseconds:
      return time * 1e6;
    case Quantity::milliseconds:
      return time * 1e3;
    case Quantity::megabytes_per_second:
      return time > 0 ? meaning.amount / time / 1e6 : 0;
    case Quantity::messages_per_second:
      return time > 0 ? meaning.amount / time : 0;
    case Quantity::kilobytes:
    case Quantity::percent:
      return time;
  }
  return time;
}

std::string json_text(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    if (c == '"' || c == '\\') kept += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      kept += c;
    } else if (c == '\n' || c == '\t') {
      kept += ' ';
    }
  }
  return kept;
}

void Output::fact(std::string_view name, std::string_view text) const {
  if (options_.format == Format::json) {
    std::printf("{\"fact\": \"%s\", \"text\": \"%s\"}\n", json_text(name).c_str(), json_text(text).c_str());
  } else {
    std::printf("# %.*s: %.*s\n", static_cast<int>(name.size()), name.data(), static_cast<int>(text.size()),
                text.data());
  }
  std::fflush(stdout);
}

void Output::number(std::string_view name, double value) const {
  if (options_.format == Format::json) {
    std::printf("{\"fact\": \"%s\", \"value\": %.6g}\n", json_text(name).c_str(), value);
  } else {
    std::printf("# %.*s: %s\n", static_cast<int>(name.size()), name.data(), figure_text(value).c_str());
  }
  std::fflush(stdout);
}

void Output::note(std::string_view text) const {
  if (options_.format == Format::json) {
    std::printf("{\"note\": \"%s\"}\n", json_text(text).c_str());
  } else {
    std::printf("# Note: %.*s\n", static_cast<int>(text.size()), text.data());
  }
  std::fflush(stdout);
}

void Output::row(std::size_t bytes, const Series& series, const Meaning& meaning) {
  std::vector<double> figures;
  figures.reserve(series.seconds.size());
  for (const double seconds : series.seconds)
    figures.push_back(figure_of(seconds, meaning));
  if (options_.format == Format::json) {
    json_row(bytes, series, meaning, figures);
  } else {
    std::sort(figures.begin(), figures.end());
    text_row(bytes, series, meaning, figures);
  }
  std::fflush(stdout);
}

void Output::header(const Meaning& meaning) {
  if (headed_) return;
  headed_ = true;
  if (sized_) std::printf("%-10s", "# Size");
  print_column((sized_ ? "" : "# ") + std::string(unit_of(meaning.quantity).title));
  for (const Extra& extra : meaning.extras)
    print_column(extra.title);
  for (const int percentile : options_.percentiles)
    print_column(percentile_title(percentile));
  if (options_.full)
    for (const char* title : {"Mean", "Min", "Max", "Low (95 %)", "High (95 %)", "Operations"})
      print_column(title);
  std::printf("\n");
}

void Output::text_row(std::size_t bytes, const Series& series, const Meaning& meaning,
                      const std::vector<double>& sorted) {
  header(meaning);
  const Summary summary = summarise(sorted);
  if (sized_) std::printf("%-10zu", bytes);
  print_column(figure_text(summary.median));
  for (const Extra& extra : meaning.extras)
    print_column(extra.is_whole ? std::to_string(std::llround(extra.value)) : figure_text(extra.value));
  for (const int percentile : options_.percentiles)
    print_column(figure_text(quantile(sorted, percentile / 100.0)));
  if (options_.full) {
    for (const double value :
         {summary.mean, summary.minimum, summary.maximum, summary.interval.low, summary.interval.high})
      print_column(figure_text(value));
    print_column(std::to_string(series.operations));
  }
  if (!series.settled) std::printf("  # the times had not settled after the warm-up");
  if (!series.resolved()) std::printf("  # no longer than the launch overhead: cannot be told");
  if (series.late > 0) std::printf("  # %ld operations left out: a rank came late to them", series.late);
  std::printf("\n");
}

void Output::json_row(std::size_t bytes, const Series& series, const Meaning& meaning,
                      const std::vector<double>& figures) const {
  std::vector<double> sorted = figures;
  std::sort(sorted.begin(), sorted.end());
  const Summary summary = summarise(sorted);
  const Unit unit = unit_of(meaning.quantity);
  std::printf("{\"benchmark\": \"%s\", ", json_text(benchmark_).c_str());
  if (sized_) std::printf("\"size\": %zu, ", bytes);
  std::printf(
      "\"unit\": \"%s\", \"less_is_better\": %s, \"value\": %.6g, \"mean\": %.6g, \"least\": %.6g, "
      "\"greatest\": %.6g, "
      "\"low\": %.6g, \"high\": %.6g, \"confidence\": %.4g, \"samples\": %zu, \"operations\": %ld, "
      "\"settled\": %s, \"resolved\": %s, \"late\": %ld",
      std::string(unit.name).c_str(), unit.less_is_better ? "true" : "false", summary.median, summary.mean,
      summary.minimum, summary.maximum, summary.interval.low, summary.interval.high,
      summary.interval.confidence, summary.count, series.operations, series.settled ? "true" : "false",
      series.resolved() ? "true" : "false", series.late);
  for (const int percentile : {10, 25, 75, 90, 99})
    std::printf(", \"p%d\": %.6g", percentile, quantile(sorted, percentile / 100.0));
  for (const int percentile : options_.percentiles)
    if (percentile != 10 && percentile != 25 && percentile != 75 && percentile != 90 && percentile != 99)
      std::printf(", \"p%d\": %.6g", percentile, quantile(sorted, percentile / 100.0));
  if (!meaning.extras.empty()) {
    const char* separator = ", \"extras\": {";
    for (const Extra& extra : meaning.extras) {
      std::printf("%s\"%s\": %.6g", separator, json_text(extra.title).c_str(), extra.value);
      separator = ", ";
    }
    std::printf("}");
  }
  if (options_.samples) {
    const char* separator = ", \"all\": [";
    for (const double figure : figures) {
      std::printf("%s%.6g", separator, figure);
      separator = ", ";
    }
    std::printf("]");
  }
  std::printf("}\n");
}

}  // namespace isthmus::bench
