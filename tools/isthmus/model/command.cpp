#include "model/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <system_error>

#include "base/unique_fd.hpp"
#include "child.hpp"
#include "measure/pair_runs.hpp"
#include "model/observed.hpp"
#include "model/report.hpp"
#include "tune/plot.hpp"

namespace isthmus::tool {
namespace {

namespace fs = std::filesystem;
constexpr const char* plotter = "plot_model.py";

int complain(const std::string& text) {
  fmt::print(stderr, "isthmus: {}\n", text);
  return 1;
}

/// A folder of this user's alone, which is gone with this object.
class Folder {
 public:
  Folder() {
    const char* const base = std::getenv("TMPDIR");
    std::string name = std::string(base && *base == '/' ? base : "/tmp") + "/isthmus-model-XXXXXX";
    if (::mkdtemp(name.data())) path_ = name;
  }
  ~Folder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  /// Empty: there is none, and errno says why.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// While it lives, what is written to standard output goes nowhere.
class Silence {
 public:
  Silence() : before_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) {
    std::fflush(stdout);
    const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (before_ && nowhere) ::dup2(nowhere.get(), STDOUT_FILENO);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  ~Silence() {
    if (before_) ::dup2(before_.get(), STDOUT_FILENO);
  }

 private:
  UniqueFd before_;
};

/// Runs the command with the observer; its status.
int run_observed(const std::vector<std::string>& command, const std::string& run, bool is_silent) {
  ::setenv("OBSERVED_JOB_RUN", run.c_str(), 1);
  std::optional<Silence> silence;
  if (is_silent) silence.emplace();
  return run_command(command);
}

using Processes = std::map<int, model::Observed>;

/// What the processes of a run have left; why not, in words.
std::expected<Processes, std::string> read_run(const std::string& folder, const std::string& run) {
  Processes found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with(run + ".")) continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    auto observed = model::read_observed(text);
    if (!observed)
      return std::unexpected(fmt::format("{}: {}", entry.path().filename().string(), observed.error()));
    const int rank = observed->rank;
    found.emplace(rank, std::move(*observed));
  }
  if (found.empty())
    return std::unexpected(
        "no process has left anything: is it a program of MPI that ends with MPI_Finalize?");
  if (static_cast<int>(found.size()) != found.begin()->second.size)
    return std::unexpected(
        fmt::format("{} of {} processes have left what was observed: the folder {} must be one for all",
                    found.size(), found.begin()->second.size, folder));
  return found;
}

std::expected<model::Findings, std::string> find_out(const std::string& folder) {
  const auto host = read_run(folder, "host");
  if (!host) return std::unexpected(host.error());
  const auto kernels = read_run(folder, "kernels");
  if (!kernels) return std::unexpected(kernels.error());
  if (host->size() != kernels->size())
    return std::unexpected("the two runs have not the same number of processes");
  model::Findings findings;
  for (const auto& [rank, observed] : *host) {
    const model::Observed& timed = kernels->at(rank);
    if (observed.seconds <= 0)
      return std::unexpected(
          "nothing was observed: the program sends no messages, or MPI_Pcontrol(1) is missing");
    if (timed.gpu_count == 0)
      return std::unexpected(
          fmt::format("rank {} has launched nothing on a GPU while it was observed", rank));
    if (timed.gpu_count < timed.launch.count)
      fmt::print(
          stderr,
          "isthmus: rank {}: {:.0f} of {:.0f} launches could not be timed, and are taken as the others\n",
          rank, timed.launch.count - timed.gpu_count, timed.launch.count);
    findings.parts.push_back(model::parts_of(observed, timed));
    findings.bytes += observed.bytes / static_cast<double>(host->size());
    if (!observed.why_not.empty()) findings.why_no_stream = observed.why_not;
    if (!observed.why_no_meeting.empty()) findings.why_no_kernel = observed.why_no_meeting;
  }
  findings.prediction = model::predict(findings.parts);
  return findings;
}

bool draw(const std::string& json, const std::string& folder, const std::string& file) {
  const std::string report = folder + "/report.json";
  std::ofstream(report) << json;
  const bool drawn = run_plotter(plotter, {report, file});
  if (drawn) fmt::print(stderr, "isthmus: drawn: {}\n", file);
  return drawn;
}

}  // namespace

int model_job(const ModelOptions& options) {
  if (!options.picture.empty() && !can_plot(plotter)) return 1;
  const std::string observer = installation() + "/lib/isthmus/libisthmus_observer.so";
  if (::access(observer.c_str(), R_OK) != 0)
    return complain(fmt::format("{}: {}: install it with this program", observer, std::strerror(errno)));
  const Folder folder;
  if (folder.path().empty())
    return complain(fmt::format("no folder for what is observed: {}", std::strerror(errno)));
  const char* const before = std::getenv("LD_PRELOAD");
  ::setenv("LD_PRELOAD", before && *before ? (observer + ":" + before).c_str() : observer.c_str(), 1);
  ::setenv("OBSERVED_JOB_FOLDER", folder.path().c_str(), 1);
  int status = run_observed(options.command, "host", options.json);
  if (status == 0) status = run_observed(options.command, "kernels", true);
  ::unsetenv("OBSERVED_JOB_FOLDER");
  ::unsetenv("LD_PRELOAD");
  if (status != 0) return status;
  const auto findings = find_out(folder.path());
  if (!findings) return complain(findings.error());
  const std::string json = model::to_json(*findings);
  if (options.json)
    fmt::print("{}\n", json);
  else
    fmt::print("\n{}", model::to_text(*findings));
  if (!options.picture.empty() && !draw(json, folder.path(), options.picture)) return 1;
  return findings->why_no_stream.empty() ? 0 : 1;
}

}  // namespace isthmus::tool
