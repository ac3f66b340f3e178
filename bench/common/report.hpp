// The lines that tools/bench reads: one JSON object a line, on standard output, nothing else of that form.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include "common/measure.hpp"

namespace isthmus::bench {

enum class Unit {
  microseconds,
  nanoseconds,
  milliseconds,
  gigabytes_per_second,
  millions_per_second,
  kilobytes
};

constexpr const char* name_of(Unit unit) {
  switch (unit) {
    case Unit::microseconds:
      return "us";
    case Unit::nanoseconds:
      return "ns";
    case Unit::milliseconds:
      return "ms";
    case Unit::gigabytes_per_second:
      return "GB/s";  // 10^9 bytes
    case Unit::millions_per_second:
      return "M/s";
    case Unit::kilobytes:
      return "KiB";
  }
  return "?";
}

// `amount` is what one operation does: bytes moved for GB/s, messages for M/s; times ignore it.
inline double in_unit(double seconds, Unit unit, double amount) {
  switch (unit) {
    case Unit::microseconds:
      return seconds * 1e6;
    case Unit::nanoseconds:
      return seconds * 1e9;
    case Unit::milliseconds:
      return seconds * 1e3;
    case Unit::gigabytes_per_second:
      return amount / seconds / 1e9;
    case Unit::millions_per_second:
      return amount / seconds / 1e6;
    case Unit::kilobytes:
      break;
  }
  return 0;
}

inline void report_value(std::string_view point, Unit unit, double value) {
  std::printf("{\"point\": \"%.*s\", \"unit\": \"%s\", \"value\": %.6g}\n", static_cast<int>(point.size()),
              point.data(), name_of(unit), value);
  std::fflush(stdout);
}

// The median of the batches, and the fastest and slowest of them.
inline void report_samples(std::string_view point, Unit unit, const Samples& samples, double amount = 1) {
  if (samples.seconds.empty()) return;
  const auto [low, high] = std::minmax_element(samples.seconds.begin(), samples.seconds.end());
  std::printf(
      "{\"point\": \"%.*s\", \"unit\": \"%s\", \"value\": %.6g, \"fastest\": %.6g, \"slowest\": %.6g, "
      "\"batches\": %zu, \"iterations\": %ld}\n",
      static_cast<int>(point.size()), point.data(), name_of(unit),
      in_unit(median(samples.seconds), unit, amount), in_unit(*low, unit, amount),
      in_unit(*high, unit, amount), samples.seconds.size(), samples.iterations);
  std::fflush(stdout);
}

// Quotes and control characters are dropped: the text comes from strerror and from MPI libraries.
inline std::string plain(std::string_view text) {
  std::string kept;
  for (const char c : text)
    if (c == '\n' || c == '\t') {
      kept += ' ';
    } else if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') {
      kept += c;
    }
  return kept;
}

inline void report_failure(std::string_view point, std::string_view reason) {
  std::printf("{\"point\": \"%.*s\", \"failure\": \"%s\"}\n", static_cast<int>(point.size()), point.data(),
              plain(reason).c_str());
  std::fflush(stdout);
}

inline void report_fact(std::string_view name, std::string_view text) {
  std::printf("{\"fact\": \"%.*s\", \"text\": \"%s\"}\n", static_cast<int>(name.size()), name.data(),
              plain(text).c_str());
  std::fflush(stdout);
}

}  // namespace isthmus::bench
