#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

/// Runs two ranks of `measure_pair` again and again.
namespace isthmus::tool {

/// One way to run them.
struct Way {
  std::string label;
  std::vector<std::string> variables;  ///< "NAME=VALUE" for the job
};

struct Curve {
  std::string name;
  bool many = false;  ///< 64 messages under way at once; else ping-pong
  std::vector<std::uint64_t> sizes;
  std::vector<Way> ways;
  std::vector<std::vector<double>> times;  ///< microseconds a message, by way and size; filled by `measure`
};

/// How often each way is run, and how many batches each run measures of a size.
struct Effort {
  int runs;
  int batches;
};

/// Measures all curves, way after way and then again, so that what the machine does in between hits all
/// alike. A point is the least of its runs' medians, because other programs only add to it. Shows a bar on a
/// terminal. The error is a sentence.
std::expected<void, std::string> measure(std::vector<Curve>& curves, const Effort& effort);

/// The folder above that of this program, and of what was installed with it.
std::string installation();

}  // namespace isthmus::tool
