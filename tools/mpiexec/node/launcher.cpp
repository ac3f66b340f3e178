#include "node/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/chosen_gpu.hpp"
#include "base/trace_file.hpp"
#include "command/words.hpp"
#include "container/compatible.hpp"
#include "launch/visit/region_socket.hpp"

namespace isthmus::mpiexec {
namespace {

/// Scripts like to use 3 to 9, bash 10 and 63 and their neighbours.
constexpr int lowest_fd_handed_on = 40;

/// The command line of rank `rank`.
std::vector<std::string> arguments_of(const Program& program, std::uint32_t rank, const std::string& job) {
  std::vector<std::string> arguments = program.arguments;
  for (std::size_t i = 0; i < program.own_words; ++i)
    arguments[i] = replaced(replaced(arguments[i], "{rank}", std::to_string(rank)), "{job}", job);
  return arguments;
}

std::vector<const char*> pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& string : strings)
    result.push_back(string.c_str());
  result.push_back(nullptr);
  return result;
}

/// For a process of several ranks: what `name_rank`, `offer_pmi` and `offer_trace_file` have set, a line
/// each.
std::string lines_of_rank(const Environment& environment) {
  std::string lines;
  const auto add = [&](const char* name) {
    if (const auto value = environment.get(name)) lines += fmt::format("{}={}\n", name, *value);
  };
  for (const char* name :
       {launcher_variable::rank, launcher_variable::world_rank, launcher_variable::local_rank, "PMI_FD",
        "PMI_RANK", "PMI_SIZE", trace_file_variable})
    add(name);
  for (const char* name : compatible_variables())
    add(name);
  return lines;
}

StartError explain(const ProcessError& error, const Program& program, std::uint32_t rank) {
  using Step = ProcessError::Step;
  if (error.step == Step::addresses)
    return {1, fmt::format("--migratable: the kernel does not let libraries lie at the same addresses in all "
                           "processes (personality): {}",
                           std::strerror(error.error))};
  if (error.step == Step::exec) return explain_exec_error(program, error.error);
  if (error.step == Step::directory)
    return {1, fmt::format("--wdir {}: {}", program.directory, std::strerror(error.error))};
  return {1, fmt::format("cannot start rank {}: {}{}", rank, std::strerror(error.error),
                         error.step == Step::clone && error.error == EAGAIN
                             ? " (the limit of processes, see `ulimit -u` and the cgroup's pids.max)"
                             : "")};
}

}  // namespace

std::expected<Process, ProcessError> Launcher::start_process(const Job::PartPlan& part,
                                                             const std::vector<Offered>& offered,
                                                             const Output::RankEnds& ends) {
  const Job& job = parts_.job;
  const Binding& binding = job.bindings[slot_];
  const auto words = arguments_of(part.program, rank(), job.name);
  const auto arguments = pointers(words);
  const auto environment = part.environment.pointers();
  std::vector<ProcessPlan::HandedOn> handed_on;
  if (!job.region_server) {
    handed_on.push_back({region_.get(), job.container ? container_region_fd : region_.get()});
    if (box_) handed_on.push_back({box_.get(), job.container ? container_box_fd : box_.get()});
  }
  for (const Offered& each : offered)
    handed_on.push_back({each.fd.get(), each.number});
  const ProcessPlan plan{
      .path = part.program.path.c_str(),
      .arguments = arguments.data(),
      .environment = environment.data(),
      .directory = part.program.directory.empty() ? nullptr : part.program.directory.c_str(),
      .cpus = binding.cpus.empty() || !job.topology.this_machine ? nullptr : &binding.cpus,
      .standard = {rank() == 0 ? parts_.input.first() : parts_.input.others(), ends.out.get(),
                   ends.err.get()},
      .handed_on = handed_on,
      .group = parts_.guard.group(),
      .same_addresses = job.migratable,
      .inherited = &parts_.signals.inherited()};
  return mpiexec::start_process(plan);
}

std::expected<void, StartError> Launcher::offer_pmi(const Job::PartPlan& part, Environment& environment,
                                                    std::vector<Offered>& offered) {
  if (!parts_.pmi) return {};
  const auto end = parts_.pmi->add(part.appnum);
  UniqueFd fd(end ? ::fcntl(end->get(), F_DUPFD_CLOEXEC, lowest_fd_handed_on) : -1);
  if (!fd)
    return std::unexpected(
        StartError{1, fmt::format("cannot make a socket for rank {}: {}", rank(), std::strerror(errno))});
  const int number = parts_.job.container ? container_pmi_fd : fd.get();
  environment.set("PMI_FD", std::to_string(number));
  environment.set("PMI_RANK", std::to_string(rank()));
  environment.set("PMI_SIZE", std::to_string(parts_.job.share.world));
  offered.push_back({std::move(fd), number});
  return {};
}

std::expected<void, StartError> Launcher::offer_trace_file(Environment& environment,
                                                           std::vector<Offered>& offered) {
  if (!parts_.traces || environment.get(trace_variable).value_or("").empty()) return {};
  const auto made = parts_.traces->make(rank());
  UniqueFd fd(made ? ::fcntl(made->file, F_DUPFD_CLOEXEC, lowest_fd_handed_on) : -1);
  if (!fd)
    return std::unexpected(StartError{1, fmt::format("cannot make a file for the trace of rank {}: {}",
                                                     rank(), made ? std::strerror(errno) : made.error())});
  if (!made->path.empty()) {
    environment.set(trace_file_variable, made->path);
    return {};
  }
  const int number = parts_.job.container ? container_trace_fd : fd.get();
  environment.set(trace_file_variable, std::to_string(number));
  offered.push_back({std::move(fd), number});
  return {};
}

std::expected<void, StartError> Launcher::start_part(Job::PartPlan& part) {
  const Job& job = parts_.job;
  Environment& environment = part.environment;
  if (job.region_server) {
    environment.set(launcher_variable::region, job.region_server->socket_path());
    environment.set(launcher_variable::key, launch::key_text(parts_.region.view.header().key));
  } else {
    environment.set(launcher_variable::region,
                    std::to_string(job.container ? container_region_fd : region_.get()));
    if (box_)
      environment.set(launcher_variable::box, std::to_string(job.container ? container_box_fd : box_.get()));
  }
  environment.set(launcher_variable::world_size, std::to_string(job.share.world));
  environment.set(launcher_variable::local_size, std::to_string(job.ranks));
  environment.set(launcher_variable::app_size, std::to_string(part.all_ranks));
  for (std::uint32_t begun = 0; begun < part.ranks;) {
    const std::uint32_t count = std::min(job.ranks_per_process, part.ranks - begun);
    if (auto ranks = start_ranks(part, count); !ranks) return ranks;
    begun += count;
    slot_ += count;
  }
  return {};
}

std::string Launcher::migration_word() {
  if (migration_word_.empty()) migration_word_ = parts_.job.share.migration;
  if (migration_word_.empty()) {
    const auto key = launch::make_job_key();
    migration_word_ = fmt::format("{}:{}", key ? launch::key_text(*key) : std::string("none"),
                                  parts_.job.ranks_per_process);
  }
  return migration_word_;
}

/// What differs between the ranks of a host.
void Launcher::name_rank(Environment& environment) const {
  const Job& job = parts_.job;
  for (const char* name : {launcher_variable::rank, launcher_variable::world_rank})
    environment.set(name, std::to_string(rank()));
  environment.set(launcher_variable::local_rank, std::to_string(slot_));
  if (job.compatible_environment)
    set_compatible_variables(
        environment, {.rank = rank(), .size = job.share.world, .local_rank = slot_, .local_size = job.ranks});
  environment.set(launcher_variable::spare_cpus,
                  slot_ < job.spare.size() ? job.spare[slot_].to_string() : "none");
  if (slot_ < job.gpus.size() && job.gpus[slot_]) {
    environment.set(visible_devices, job.gpus[slot_]->visible);
    environment.set(chosen_gpu_variable, job.gpus[slot_]->text);
  }
}

std::expected<void, StartError> Launcher::start_ranks(Job::PartPlan& part, std::uint32_t count) {
  const Job& job = parts_.job;
  Environment& environment = part.environment;
  std::vector<Offered> offered;
  std::string all;  // of several: what each finds in its environment
  const std::uint32_t first = slot_;
  for (; slot_ < first + count; ++slot_) {
    name_rank(environment);
    if (auto pmi = offer_pmi(part, environment, offered); !pmi) return pmi;
    if (auto trace = offer_trace_file(environment, offered); !trace) return trace;
    if (job.ranks_per_process > 1) all += lines_of_rank(environment) + '\n';
  }
  slot_ = first;
  if (job.ranks_per_process > 1) {
    name_rank(environment);
    environment.set(launcher_variable::virtual_ranks, all);
    environment.set(launcher_variable::workers, std::to_string(job.workers));
    // What hides addresses in its processes: nobody else is to know it, and it is no key of the job's.
    if (job.migratable) environment.set(launcher_variable::migratable, migration_word());
  }
  if (job.container) job.container->hand_on(environment);
  const auto ends = parts_.output.open(rank(), count);
  if (!ends)
    return std::unexpected(
        StartError{1, fmt::format("cannot make a pipe for rank {}: {} (--output direct needs none)", rank(),
                                  std::strerror(ends.error()))});
  auto process = start_process(part, offered, *ends);
  if (!process && process.error().error == ENOEXEC && is_plain_script(part.program)) {
    part.program = through_shell(std::move(part.program));
    process = start_process(part, offered, *ends);
  }
  if (!process) return std::unexpected(explain(process.error(), part.program, rank()));
  started(*process, count);
  return {};
}

void Launcher::started(const Process& process, std::uint32_t count) {
  parts_.supervisor.started(process.pid, count);
  if (!process.bind_error || bind_warned_) return;
  bind_warned_ = true;
  parts_.output.message(fmt::format("warning: rank {} cannot be bound to CPU {}: {}", rank(),
                                    parts_.job.bindings[slot_].cpus.to_string(),
                                    std::strerror(process.bind_error)));
}

std::expected<void, StartError> Launcher::start_all() {
  region_ = UniqueFd(::fcntl(parts_.region.fd.get(), F_DUPFD_CLOEXEC, lowest_fd_handed_on));
  if (!region_) {
    const std::string why = errno == EINVAL ? fmt::format(
                                                  "it becomes descriptor {} or a later one, and the limit "
                                                  "of open files (ulimit -n) allows none of them",
                                                  lowest_fd_handed_on)
                                            : std::strerror(errno);
    return std::unexpected(StartError{1, fmt::format("cannot hand the region on: {}", why)});
  }
  if (parts_.region.box)
    box_ = UniqueFd(::fcntl(parts_.region.box.get(), F_DUPFD_CLOEXEC, lowest_fd_handed_on));
  if (parts_.job.region_server)
    parts_.job.region_server->serve(region_.get(), box_.get(), parts_.region.view.header().key);
  for (Job::PartPlan& part : parts_.job.parts)
    if (auto started = start_part(part); !started) return started;
  parts_.input.started();
  return {};
}

}  // namespace isthmus::mpiexec
