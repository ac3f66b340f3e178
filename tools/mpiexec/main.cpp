#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "guard.hpp"
#include "input.hpp"
#include "job.hpp"
#include "launcher.hpp"
#include "options.hpp"
#include "output.hpp"
#include "signals.hpp"
#include "supervisor.hpp"
#include "words.hpp"

namespace isthmus::mpiexec {
namespace {

constexpr int status_usage = 2;

/// So that no descriptor of ours is taken for a standard one.
void open_standard_descriptors() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
}

/// Children that a shell had before it became mpiexec by exec.
std::vector<pid_t> present_children() {
  std::ifstream file("/proc/thread-self/children");
  std::vector<pid_t> result;
  for (pid_t pid = 0; file >> pid;)
    result.push_back(pid);
  return result;
}

/// stdin, stdout, stderr, the region and some of our own, and two pipes' reading ends for each rank.
rlim_t needed_open_files(std::uint32_t ranks) {
  return 64 + 2 * rlim_t{ranks};
}

void report(const Options& options, const Job& job, Output& output) {
  for (const std::string& note : options.notes)
    output.message("note: " + note);
  for (const std::string& warning : job.warnings)
    output.message("warning: " + warning);
  if (options.verbose) output.message(job.summary().substr(0, job.summary().size() - 1));
  if (options.report_bindings) output.print_error(job.binding_report());
}

/// What mpiexec would have done at its end. A container may be in the making when its starter is killed.
std::string cleaning(const Job& job) {
  std::string command;
  if (job.region_server) command = "rm -rf " + quoted(job.region_server->folder());
  const std::string removal = job.container ? job.container->removal() : "";
  if (!removal.empty()) command += (command.empty() ? "" : "; ") + removal + "; sleep 1; " + removal;
  return command;
}

int fail_with(Output& output, const StartError& error) {
  output.message(error.text);
  return error.status;
}

int run_job(const Options& options) {
  const std::vector<pid_t> bystanders = present_children();
  const Signals signals;
  auto job = Job::plan(options);
  if (!job) {
    Output output(OutputMode::direct, 1);
    return fail_with(output, job.error());
  }
  auto guard = Guard::start(cleaning(*job));
  Output output(options.output, job->ranks);
  if (!guard) return fail_with(output, {1, fmt::format("cannot fork: {}", std::strerror(guard.error()))});
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto region = job->make_region();
  if (!region) return fail_with(output, region.error());
  report(options, *job, output);

  Input input;
  std::vector<Attendant*> attendants;
  if (job->region_server) attendants.push_back(&*job->region_server);
  Supervisor supervisor({.signals = signals,
                         .guard = *guard,
                         .input = input,
                         .output = output,
                         .region = region->view,
                         .host = job->host,
                         .attendants = attendants,
                         .removal = job->container ? job->container->removal() : "",
                         .bystanders = bystanders});
  allow_open_files(needed_open_files(job->ranks));
  Launcher launcher({*job, *region, signals, *guard, input, output, supervisor});
  if (options.timeout) supervisor.end_after(*options.timeout);
  if (auto started = launcher.start_all(); !started) {
    supervisor.abandon();
    return fail_with(output, started.error());
  }
  return supervisor.run();
}

int print(const PrintAndExit& request) {
  const bool printed = std::fputs(request.text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return printed ? 0 : 1;
}

}  // namespace
}  // namespace isthmus::mpiexec

int main(int count, char** arguments) try {
  using namespace isthmus::mpiexec;
  open_standard_descriptors();
  const Request request = parse({arguments + 1, arguments + count});
  if (const auto* text = std::get_if<PrintAndExit>(&request)) return print(*text);
  if (const auto* error = std::get_if<UsageError>(&request)) {
    fmt::print(stderr, "mpiexec: {}\n", error->text);
    return status_usage;
  }
  return run_job(std::get<Options>(request));
} catch (const std::exception& error) {
  std::fprintf(stderr, "mpiexec: %s\n", error.what());  // ranks that run die with mpiexec
  return 1;
}
