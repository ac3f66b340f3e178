#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "measure/progress_bar.hpp"

/// Runs two ranks of `measure_pair`, or of `measure_gpu_pair`, again and again.
namespace isthmus::tool {

/// One way to run them.
struct Way {
  std::string label;
  std::vector<std::string> variables;  ///< "NAME=VALUE" for the job
};

struct Curve {
  std::string name;
  bool many = false;  ///< 64 messages under way at once; else ping-pong
  /// "fresh": from a window of 256 MiB; "same": the same buffers again; empty: these, changed by the sender
  /// before each message.
  std::string data;
  std::vector<std::uint64_t> sizes;
  std::vector<Way> ways;
  std::vector<std::string> memories;       ///< "device" or "host" at either end; empty: no GPU
  std::vector<std::string> launch;         ///< further options of mpiexec
  std::vector<std::vector<double>> times;  ///< microseconds a message, by way and size; filled by `measure`
};

/// How often each way is run, and how many batches each run measures of a size.
struct Effort {
  int runs;
  int batches;
};

/// Jobs that measure a curve.
std::size_t jobs_for(const Curve& curve, const Effort& effort);

/// Measures a curve, way after way and then again, so that what the machine does in between hits all alike. A
/// point is the least of its runs' medians, because other programs only add to it. The error is a sentence.
std::expected<void, std::string> measure(Curve& curve, const Effort& effort, ProgressBar& bar);

/// One run of one way: microseconds a message, by size. The error is a sentence.
std::expected<std::vector<double>, std::string> measure_once(const Curve& curve, const Way& way, int batches);

/// mpiexec with the two ranks.
std::vector<std::string> command_for(const Curve& curve, const Way& way, int batches);

/// What became of a command.
struct Output {
  enum class Errors : std::uint8_t { shown, kept };

  bool succeeded = false;
  std::string text;
  std::string errors;  ///< what it wrote to stderr, if that is kept; why it was not started
};
Output run(const std::vector<std::string>& words, Output::Errors errors);

/// The folder above that of this program, and of what was installed with it.
std::string installation();

}  // namespace isthmus::tool
