// Results as they come: a table as the OSU micro-benchmarks print it, or a JSON object a line (for isthmus
// bench compare).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "suite/core/options.hpp"
#include "suite/core/statistics.hpp"

namespace isthmus::bench {

// What was measured of one size: seconds an operation, a value a sample.
struct Series {
  std::vector<double> seconds;
  long operations = 0;  // all of them
  long operations_a_sample = 1;
  bool settled = true;  // the warm-up converged
  // What is left of the times after the launch overhead was subtracted is more than nothing.
  [[nodiscard]] bool resolved() const { return seconds.empty() || summarise(seconds).median > 0; }
  long late = 0;  // operations that did not count, because a rank came late to them
};

enum class Quantity : std::uint8_t {
  microseconds,
  megabytes_per_second,
  messages_per_second,
  milliseconds,
  kilobytes,
  percent
};

struct Unit {
  std::string_view title;  // of the column
  std::string_view name;
  bool less_is_better;
};
constexpr Unit unit_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::microseconds:
      return {"Latency (us)", "us", true};
    case Quantity::megabytes_per_second:
      return {"Bandwidth (MB/s)", "MB/s", false};  // 10^6 bytes
    case Quantity::messages_per_second:
      return {"Messages/s", "1/s", false};
    case Quantity::milliseconds:
      return {"Time (ms)", "ms", true};
    case Quantity::kilobytes:
      return {"Memory (KiB)", "KiB", true};
    case Quantity::percent:
      return {"Overlap (%)", "%", false};
  }
  return {"?", "?", true};
}

// A further column of a benchmark, for all sizes alike.
struct Extra {
  std::string title;
  double value;
  bool is_whole = false;  // a number of things
};

// How seconds become the figure: `amount`: what one operation does (bytes, messages); `share`: which part of
// its time is meant.
struct Meaning {
  Quantity quantity = Quantity::microseconds;
  double amount = 1;
  double share = 1;
  std::vector<Extra> extras;
};

double figure_of(double seconds, const Meaning& meaning);

class Output {
 public:
  Output(std::string benchmark, const Options& options, bool sized)
      : benchmark_(std::move(benchmark)), options_(options), sized_(sized) {}

  // Facts of the run, each once, before the first row.
  void fact(std::string_view name, std::string_view text) const;
  void number(std::string_view name, double value) const;
  void row(std::size_t bytes, const Series& series, const Meaning& meaning);
  // A sentence for the reader: a comment in the table, an object of its own in JSON.
  void note(std::string_view text) const;

 private:
  void header(const Meaning& meaning);
  void text_row(std::size_t bytes, const Series& series, const Meaning& meaning,
                const std::vector<double>& sorted);
  void json_row(std::size_t bytes, const Series& series, const Meaning& meaning,
                const std::vector<double>& figures) const;

  std::string benchmark_;
  const Options& options_;
  bool sized_;
  bool headed_ = false;
};

// Text as it may stand between quotes in JSON.
std::string json_text(std::string_view text);

}  // namespace isthmus::bench
