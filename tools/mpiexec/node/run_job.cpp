#include "node/run_job.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/system/open_files.hpp"
#include "command/words.hpp"
#include "node/launcher.hpp"
#include "node/trace_files.hpp"
#include "ranks/guard.hpp"
#include "streams/input.hpp"
#include "streams/output.hpp"
#include "stuck/door.hpp"
#include "stuck/text.hpp"

namespace isthmus::mpiexec {
namespace {

/// stdin, stdout, stderr, the region and some of our own, and two pipes, a socket and a file for each rank.
rlim_t needed_open_files(std::uint32_t ranks) {
  return 64 + 4 * rlim_t{ranks};
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
  if (job.region_server) command = "rm -rf " + shell_quoted(job.region_server->folder());
  const std::string removal = job.container ? job.container->removal() : "";
  if (!removal.empty()) command += (command.empty() ? "" : "; ") + removal + "; sleep 1; " + removal;
  return command;
}

/// Answers `isthmus stuck` from what the supervisor sees.
class DoorKeeper final : public stuck::Door::Asked {
 public:
  void watch(const Supervisor& supervisor) { supervisor_ = &supervisor; }
  void asked(stuck::Door& door) override { door.answer(stuck::report(supervisor_->look())); }

 private:
  const Supervisor* supervisor_ = nullptr;
};

int fail_with(Output& output, const StartError& error, WiderJob* wider) {
  if (wider)
    wider->refuse(error);
  else
    output.message(error.text);
  return error.status;
}

/// An engine that hands on no region hands on no socket either.
/// Ranks of one host need none, and where several of them are a process, other libraries that want it have
/// none.
bool can_offer_pmi(const Job& job, bool is_wider) {
  if (job.ranks_per_process > 1 && !is_wider) return false;
  return !job.container || job.container->rendezvous() == Rendezvous::inherited;
}

/// Whether ranks may not see the folder that they are traced in.
bool takes_traces_back(const Job& job, bool is_wider) {
  return is_wider || (job.container && job.container->takes_traces_back());
}

std::string trace_folder(const Job& job, std::uint32_t rank) {
  std::uint32_t slot = rank - job.share.first_rank;
  for (const Job::PartPlan& part : job.parts) {
    if (slot < part.ranks) return std::string(part.environment.get(trace_variable).value_or(""));
    slot -= part.ranks;
  }
  return {};
}

void take_traces_back(const TraceFiles& files, const Job& job, Output& output, WiderJob* wider) {
  TraceFolders folders;
  files.collect([&](std::uint32_t rank, std::string_view bytes) {
    if (wider) return wider->traced(rank, bytes);
    const std::string complaint = folders.add(trace_folder(job, rank), rank, bytes);
    if (!complaint.empty()) output.message("warning: " + complaint);
    return true;
  });
}

}  // namespace

void open_door(stuck::Door& door, Output& output) {
  if (const std::string why = door.open(); !why.empty())
    output.message(
        fmt::format("warning: `isthmus stuck` cannot ask this job why it hangs ({}); SIGQUIT to mpiexec "
                    "still prints it",
                    why));
}

std::vector<pid_t> present_children() {
  std::ifstream file("/proc/thread-self/children");
  std::vector<pid_t> result;
  for (pid_t pid = 0; file >> pid;)
    result.push_back(pid);
  return result;
}

int run_job(const Options& options, const Signals& signals, const std::vector<pid_t>& bystanders,
            WiderJob* wider) {
  auto job = Job::plan(options, wider ? std::optional(wider->share()) : std::nullopt);
  if (!job) {
    Output output(OutputMode::direct, 1);
    return fail_with(output, job.error(), wider);
  }
  auto guard = Guard::start(cleaning(*job));
  Output output(options.output, job->ranks);
  if (!guard)
    return fail_with(output, {1, fmt::format("cannot fork: {}", std::strerror(guard.error()))}, wider);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto region = job->make_region();
  if (!region) return fail_with(output, region.error(), wider);
  report(options, *job, output);

  Input input;
  Supervisor* running = nullptr;
  PmiServer pmi({.name = job->name,
                 .first_rank = job->share.first_rank,
                 .world = job->share.world,
                 .universe = std::max(job->share.world, job->processors),
                 .mapping = job->share.mapping,
                 .outlive = options.outlive,
                 .barrier = wider ? [&](const Pairs& put) { wider->barrier(put); }
                                  : std::function<void(const Pairs&)>(),
                 .abort = [&](std::uint32_t slot, int code) { running->abort(slot, code); }});
  std::vector<Attendant*> attendants{&pmi};
  if (job->region_server) attendants.push_back(&*job->region_server);
  if (wider) attendants.push_back(wider);
  DoorKeeper keeper;
  stuck::Door door(keeper);
  if (!wider) open_door(door, output);
  attendants.push_back(&door);
  Supervisor supervisor(
      {.signals = signals,
       .guard = *guard,
       .input = input,
       .output = output,
       .region = region->view,
       .host = job->host,
       .first_rank = job->share.first_rank,
       .first_slot = job->first_slot(),
       .overseer = wider,
       .outlive = options.outlive,
       .attendants = attendants,
       .left_open = [&](std::uint32_t slot) { return pmi.left_open(slot); },
       // Ranks that go to other hosts have left PMI before they begin.
       .has_left = [&](std::uint32_t slot) { return job->share.migration.empty() && pmi.has_left(slot); },
       .removal = job->container ? job->container->removal() : "",
       .bystanders = bystanders});
  running = &supervisor;
  keeper.watch(supervisor);
  allow_open_files(needed_open_files(job->ranks));
  TraceFiles traces(job->region_server ? job->region_server->folder() : "");
  Launcher launcher({*job, *region, signals, *guard, input, output, supervisor,
                     can_offer_pmi(*job, wider != nullptr) ? &pmi : nullptr,
                     takes_traces_back(*job, wider != nullptr) ? &traces : nullptr});
  if (options.timeout) supervisor.end_after(*options.timeout);
  if (auto started = launcher.start_all(); !started) {
    supervisor.abandon();
    return fail_with(output, started.error(), wider);
  }
  if (wider) wider->started(supervisor, pmi);
  const int status = supervisor.run();
  take_traces_back(traces, *job, output, wider);
  if (wider) wider->ended();
  return status;
}

}  // namespace isthmus::mpiexec
