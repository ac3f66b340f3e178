// `isthmus tune`: measures what the plans of this machine follow from, and writes what it found as a table.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <expected>
#include <utility>

#include "base/settings.hpp"
#include "commands.hpp"
#include "gpu/driver/cuda_driver.hpp"
#include "measure/network_pair.hpp"
#include "measure/pair_runs.hpp"
#include "measure/progress_bar.hpp"
#include "route/tuning.hpp"
#include "tune/long_ways.hpp"
#include "tune/plot.hpp"
#include "tune/taught.hpp"
#include "tune/tuning_questions.hpp"
#include "tune/tuning_table.hpp"

namespace isthmus::tool {
namespace {

/// Many runs, because a run that was disturbed must not decide; `--quick` is for a first look.
constexpr Effort thorough{.runs = 7, .batches = 101};
constexpr Effort quick{.runs = 2, .batches = 11};

/// Until it is decided which way long messages come fastest.
Rounds rounds_for(bool is_quick) {
  constexpr std::uint64_t kib = 1024;
  if (is_quick) return {.least = 3, .most = 3, .batches = 5, .sizes = {64 * kib, 1024 * kib}};
  return {
      .least = 3, .most = 9, .batches = 15, .sizes = {32 * kib, 64 * kib, 256 * kib, 1024 * kib, 4096 * kib}};
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

/// The user's settings would decide what is measured.
void forget_settings() {
  for (const SettingDescription& setting : describe(Settings{}))
    ::unsetenv(std::string(setting.variable).c_str());
  ::setenv("ISTHMUS_TUNING", "off", 1);
}

/// Asks all questions; keeps them with the answers.
class Tuner {
 public:
  /// `gpus`: how many there are, 0: they are not asked for.
  Tuner(bool is_quick, const std::expected<NetworkPair, std::string>& network, int gpus)
      : effort_(is_quick ? quick : thorough),
        rounds_(rounds_for(is_quick)),
        network_(network),
        gpus_(gpus),
        bar_(count_jobs()) {}

  std::expected<void, std::string> ask_all() {
    if (auto asked = ask(split_question()); !asked) return asked;
    for (Question& question : further_questions(answers_.front().value.value))
      if (auto asked = ask(std::move(question)); !asked) return asked;
    if (!network_)
      fmt::print("\nISTHMUS_NETWORK_EAGER_LIMIT is not measured: {}\n", network_.error());
    else if (auto asked = ask(network_question(*network_)); !asked)
      return asked;
    for (Question& question : of_gpus())
      if (auto asked = ask(std::move(question)); !asked) return asked;
    auto taught = ask_long_ways(rounds_, bar_);
    if (!taught) return std::unexpected(taught.error());
    taught_ = std::move(*taught);
    if (gpus_ == 1) fmt::print("\nISTHMUS_GPU_PUSH_FROM is not measured: there is one GPU\n");
    return {};
  }

  [[nodiscard]] const std::vector<Answered>& answers() const { return answers_; }
  [[nodiscard]] const std::vector<Taught>& taught() const { return taught_; }

 private:
  [[nodiscard]] std::size_t count_jobs() const {
    std::size_t jobs = jobs_for(split_question().curve, effort_) + jobs_for(rounds_);
    for (const Question& question : further_questions(0))
      jobs += jobs_for(question.curve, effort_);
    for (const Question& question : of_gpus())
      jobs += jobs_for(question.curve, effort_);
    return network_ ? jobs + jobs_for(network_question(*network_).curve, effort_) : jobs;
  }
  [[nodiscard]] std::vector<Question> of_gpus() const {
    if (gpus_ == 0) return {};
    std::vector<Question> all = gpu_questions(gpus_);
    if (network_) all.push_back(gpu_chunk_question(*network_));
    return all;
  }

  /// Measures, prints and keeps.
  std::expected<void, std::string> ask(Question question) {
    if (auto measured = measure(question.curve, effort_, bar_); !measured) return measured;
    bar_.hide();
    tuning::Value value = answer(question);
    print(question.curve);
    fmt::print("  -> {} = {} ({}): {}\n", value.variable, value.value, value.tuned ? "tuned" : "the default",
               value.why);
    std::fflush(stdout);
    answers_.push_back({std::move(question), std::move(value)});
    return {};
  }

  Effort effort_;
  Rounds rounds_;
  const std::expected<NetworkPair, std::string>& network_;
  const int gpus_;
  ProgressBar bar_;
  std::vector<Answered> answers_;
  std::vector<Taught> taught_;
};

/// How many GPUs a program sees.
std::expected<int, std::string> count_gpus() {
  CudaDriver driver;
  const auto cuda = driver.open();
  if (!cuda) return std::unexpected(cuda.error().text());
  int count = 0;
  if ((*cuda)->device_count(&count) != cuda::Status::success || count == 0)
    return std::unexpected("the CUDA driver has no GPU");
  return count;
}

/// Draws the table at `path`, where that is wanted.
int draw(const std::string& path, const std::string& prefix) {
  if (prefix.empty()) return 0;
  if (!plot(path, prefix)) return 1;
  fmt::print("Drawn: {}.png and {}.svg\n", prefix, prefix);
  return 0;
}

}  // namespace

int tune(const TuneOptions& options) {
  if (!options.from.empty()) return draw(options.from, options.plot);
  const std::string path = options.output.empty() ? tuning::default_path() : options.output;
  if (path.empty()) {
    fmt::print(stderr, "isthmus: there is no home folder for the table: name a file with --output\n");
    return 2;
  }
  if (!options.command.empty()) return tune_from(options, path);
  int gpus = 0;
  if (options.gpu) {
    const auto found = count_gpus();
    if (!found) {
      fmt::print(stderr, "isthmus: --gpu needs a GPU: {}; no table is written\n", found.error());
      return 2;
    }
    gpus = *found;
  }
  forget_settings();
  if (!options.plot.empty()) warn_of_missing_plotter();
  const auto network = find_network_pair(options.hosts, options.launcher);
  if (!network && !options.hosts.empty()) {
    fmt::print(stderr, "isthmus: no two ranks on {}: {}\n", options.hosts, network.error());
    return 1;
  }
  Tuner tuner(options.quick, network, gpus);
  if (const auto asked = tuner.ask_all(); !asked) {
    fmt::print(stderr, "isthmus: {}; no table is written\n", asked.error());
    return 1;
  }
  const TaughtAll taught{.ways = tuner.taught(), .eager = {}, .gpu = {}, .collectives = {}};
  if (const auto written = write_whole(path, with_taught(table_text(tuner.answers()), taught)); !written) {
    fmt::print(stderr, "isthmus: {}\n", written.error());
    return 1;
  }
  fmt::print("\nWritten: {}{}\n", path,
             options.output.empty() ? "; your jobs on this machine use it from now on"
                                    : " (for jobs with ISTHMUS_TUNING set to its absolute path)");
  std::fflush(stdout);
  return draw(path, options.plot);
}

}  // namespace isthmus::tool
