// `isthmus tune`: measures what the plans of this machine follow from, and writes what it found as a table.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <expected>
#include <span>

#include "base/settings.hpp"
#include "commands.hpp"
#include "pair_runs.hpp"
#include "route/switch_point.hpp"
#include "route/tuning.hpp"
#include "tuning_table.hpp"

namespace isthmus::tool {
namespace {

constexpr std::uint64_t kib = 1024;

std::string size_text(std::uint64_t bytes) {
  return bytes % (kib * kib) == 0 && bytes > 0 ? fmt::format("{} MiB", bytes / kib / kib)
         : bytes % kib == 0 && bytes > 0       ? fmt::format("{} KiB", bytes / kib)
                                               : fmt::format("{} B", bytes);
}

/// A curve and the setting that it decides.
struct Question {
  std::string variable;
  std::string what;
  Curve curve;
  /// Of several candidates, their values; empty where two ways cross at a size.
  std::vector<std::uint64_t> candidates;
  std::size_t usual = 0;     ///< the default: position among candidates, or how many sizes go the first way
  bool first_above = false;  ///< the setting is the first size of the second way, else the last of the first
};

/// Two ways that cross; `usual` sizes go the first way by default.
Question crossing(const std::string& variable, const std::string& what, bool many,
                  std::vector<std::uint64_t> sizes, std::vector<Way> ways, std::size_t usual) {
  return {.variable = variable,
          .what = what,
          .curve = {.name = what, .many = many, .sizes = std::move(sizes), .ways = std::move(ways)},
          .usual = usual};
}

Question candidates(const std::string& variable, const std::string& what, bool many,
                    std::vector<std::uint64_t> sizes, std::vector<std::uint64_t> values, std::size_t usual,
                    const std::vector<std::string>& also = {}) {
  Question question{.variable = variable,
                    .what = what,
                    .curve = {.name = what, .many = many, .sizes = std::move(sizes)},
                    .candidates = std::move(values),
                    .usual = usual};
  for (const std::uint64_t value : question.candidates) {
    std::vector<std::string> variables = also;
    variables.push_back(fmt::format("{}={}", variable, value));
    question.curve.ways.push_back({std::to_string(value), std::move(variables)});
  }
  return question;
}

Question split_question() {
  Question question = crossing("ISTHMUS_SPLIT_FROM", "receiver reads, or both sides copy", false,
                               {8 * kib, 16 * kib, 32 * kib, 64 * kib, 128 * kib, 256 * kib},
                               {{"receiver reads", {"ISTHMUS_EAGER_LIMIT=2K", "ISTHMUS_SPLIT_FROM=1G"}},
                                {"both copy", {"ISTHMUS_EAGER_LIMIT=2K", "ISTHMUS_SPLIT_FROM=1"}}},
                               2);
  question.first_above = true;
  return question;
}

/// Those whose curves depend on where both sides begin to copy.
std::vector<Question> further_questions(std::uint64_t split_from) {
  const std::string split = fmt::format("ISTHMUS_SPLIT_FROM={}", split_from);
  const std::vector<Way> eager_or_not{
      {"eager", {"ISTHMUS_EAGER_LIMIT=192K", "ISTHMUS_BANDWIDTH_EAGER_LIMIT=192K", split}},
      {"rendezvous", {"ISTHMUS_EAGER_LIMIT=2K", "ISTHMUS_BANDWIDTH_EAGER_LIMIT=2K", split}}};
  const std::vector<std::uint64_t> around_eager{4 * kib, 8 * kib, 16 * kib, 32 * kib, 64 * kib, 128 * kib};
  std::vector<Question> all;
  all.push_back(crossing("ISTHMUS_EAGER_LIMIT", "eager limit, one message at a time", false, around_eager,
                         eager_or_not, 3));
  all.push_back(crossing("ISTHMUS_BANDWIDTH_EAGER_LIMIT", "eager limit, 64 messages under way", true,
                         around_eager, eager_or_not, 3));
  all.push_back(candidates("ISTHMUS_FRAGMENT", "fragment through the ring, without direct copies", false,
                           {128 * kib, 1024 * kib}, {4 * kib, 8 * kib, 16 * kib, 32 * kib, 64 * kib}, 2,
                           {"ISTHMUS_CMA=off"}));
  all.push_back(candidates("ISTHMUS_RING_CELLS", "cells in a ring", true, {8, 1 * kib},
                           {128, 256, 512, 1024, 2048}, 2));
  all.push_back(candidates("ISTHMUS_RING_BYTES", "bytes in a ring", true, {4 * kib, 16 * kib},
                           {256 * kib, 512 * kib, 1024 * kib, 2048 * kib}, 1));
  return all;
}

tuning::Value answer_crossing(const Question& question, const Curve& curve) {
  const std::size_t point = tuning::switch_point(curve.times[0], curve.times[1], question.usual);
  tuning::Value value{.variable = question.variable, .tuned = point != question.usual};
  const bool end = point == curve.sizes.size();
  if (question.first_above)
    value.value = end ? curve.sizes.back() * 2 : curve.sizes[point];
  else
    value.value = point == 0 ? 2 * kib : curve.sizes[point - 1];
  const std::size_t at =
      value.tuned && point > question.usual ? point - 1 : std::min(point, curve.sizes.size() - 1);
  value.why = fmt::format("at {}: {:.2f} us ({}), {:.2f} us ({}){}", size_text(curve.sizes[at]),
                          curve.times[0][at], curve.ways[0].label, curve.times[1][at], curve.ways[1].label,
                          value.tuned ? "" : "; no size beside the default gains 5 % by a move");
  return value;
}

tuning::Value answer_candidates(const Question& question, const Curve& curve) {
  const std::vector<std::span<const double>> times(curve.times.begin(), curve.times.end());
  const std::size_t best = tuning::best_of(times, question.usual);
  tuning::Value value{
      .variable = question.variable, .value = question.candidates[best], .tuned = best != question.usual};
  value.why = value.tuned
                  ? fmt::format("at {}: {:.2f} us, with the default {:.2f} us", size_text(curve.sizes.back()),
                                curve.times[best].back(), curve.times[question.usual].back())
                  : "no other candidate gains 5 %";
  return value;
}

void print(const Curve& curve) {
  fmt::print("\n{} (us a message)\n{:>10}", curve.name, "size");
  for (const Way& way : curve.ways)
    fmt::print("{:>16}", way.label);
  fmt::print("\n");
  for (std::size_t i = 0; i < curve.sizes.size(); ++i) {
    fmt::print("{:>10}", size_text(curve.sizes[i]));
    for (const auto& times : curve.times)
      fmt::print("{:>16.2f}", times[i]);
    fmt::print("\n");
  }
}

struct Findings {
  std::vector<tuning::Value> values;
  std::vector<Curve> curves;
};

/// Measures, prints and keeps the answers.
std::expected<void, std::string> answer(std::vector<Question>& questions, const Effort& effort,
                                        Findings& findings) {
  std::vector<Curve> curves;
  curves.reserve(questions.size());
  for (Question& question : questions)
    curves.push_back(std::move(question.curve));
  if (auto measured = measure(curves, effort); !measured) return measured;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& question = questions[i];
    const tuning::Value value = question.candidates.empty() ? answer_crossing(question, curves[i])
                                                            : answer_candidates(question, curves[i]);
    print(curves[i]);
    fmt::print("  -> {} = {} ({}): {}\n", value.variable, value.value, value.tuned ? "tuned" : "the default",
               value.why);
    std::fflush(stdout);
    findings.values.push_back(value);
    findings.curves.push_back(std::move(curves[i]));
  }
  return {};
}

/// The user's settings would decide what is measured.
void forget_settings() {
  for (const SettingDescription& setting : describe(Settings{}))
    ::unsetenv(std::string(setting.variable).c_str());
  ::setenv("ISTHMUS_TUNING", "off", 1);
}

int plot(const std::string& table, const std::string& prefix) {
  const std::string script = installation() + "/share/isthmus/plot_tuning.py";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execlp("python3", "python3", script.c_str(), table.c_str(), prefix.c_str(), nullptr);
    fmt::print(stderr, "isthmus: tune --plot needs python3 and matplotlib\n");
    ::_exit(1);
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return 1;
  fmt::print("Drawn: {}.png and {}.svg\n", prefix, prefix);
  return 0;
}

}  // namespace

int tune(const TuneOptions& options) {
  const std::string path = options.output.empty() ? tuning::default_path() : options.output;
  if (path.empty()) {
    fmt::print(stderr, "isthmus: there is no home folder for the table: name a file with --output\n");
    return 2;
  }
  forget_settings();
  const Effort effort = options.quick ? Effort{.runs = 1, .batches = 11} : Effort{.runs = 7, .batches = 101};
  Findings findings;
  std::vector<Question> split{split_question()};
  auto answered = answer(split, effort, findings);
  if (answered) {
    std::vector<Question> further = further_questions(findings.values.front().value);
    answered = answer(further, effort, findings);
  }
  if (!answered) {
    fmt::print(stderr, "isthmus: {}; no table is written\n", answered.error());
    return 1;
  }
  fmt::print("\nISTHMUS_NETWORK_EAGER_LIMIT is not measured: that takes a second host.\n");
  if (const auto written = write_whole(path, table_text(findings.values, findings.curves)); !written) {
    fmt::print(stderr, "isthmus: {}\n", written.error());
    return 1;
  }
  fmt::print("Written: {}{}\n", path,
             options.output.empty() ? "; your jobs on this machine use it from now on"
                                    : " (for jobs with ISTHMUS_TUNING set to its absolute path)");
  std::fflush(stdout);
  return options.plot.empty() ? 0 : plot(path, options.plot);
}

}  // namespace isthmus::tool
