#include "node/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/chosen_gpu.hpp"
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

StartError explain(const ProcessError& error, const Program& program, std::uint32_t rank) {
  using Step = ProcessError::Step;
  if (error.step == Step::exec) return explain_exec_error(program, error.error);
  if (error.step == Step::directory)
    return {1, fmt::format("--wdir {}: {}", program.directory, std::strerror(error.error))};
  return {1, fmt::format("cannot start rank {}: {}{}", rank, std::strerror(error.error),
                         error.step == Step::clone && error.error == EAGAIN
                             ? " (the limit of processes, see `ulimit -u` and the cgroup's pids.max)"
                             : "")};
}

}  // namespace

std::expected<Process, ProcessError> Launcher::start_rank(const Job::PartPlan& part, int pmi_fd,
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
  if (pmi_fd >= 0) handed_on.push_back({pmi_fd, job.container ? container_pmi_fd : pmi_fd});
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
      .inherited = &parts_.signals.inherited()};
  return start_process(plan);
}

/// What the rank finds in its environment; the end of its socket.
std::expected<UniqueFd, StartError> Launcher::offer_pmi(const Job::PartPlan& part, Environment& environment) {
  if (!parts_.pmi) return UniqueFd();
  const auto end = parts_.pmi->add(part.appnum);
  UniqueFd fd(end ? ::fcntl(end->get(), F_DUPFD_CLOEXEC, lowest_fd_handed_on) : -1);
  if (!fd)
    return std::unexpected(
        StartError{1, fmt::format("cannot make a socket for rank {}: {}", rank(), std::strerror(errno))});
  environment.set("PMI_FD", std::to_string(parts_.job.container ? container_pmi_fd : fd.get()));
  environment.set("PMI_RANK", std::to_string(rank()));
  environment.set("PMI_SIZE", std::to_string(parts_.job.share.world));
  return fd;
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
  for (std::uint32_t i = 0; i < part.ranks; ++i, ++slot_) {
    for (const char* name : {launcher_variable::rank, launcher_variable::world_rank})
      environment.set(name, std::to_string(rank()));
    environment.set(launcher_variable::local_rank, std::to_string(slot_));
    if (job.compatible_environment)
      set_compatible_variables(
          environment,
          {.rank = rank(), .size = job.share.world, .local_rank = slot_, .local_size = job.ranks});
    environment.set(launcher_variable::spare_cpus,
                    slot_ < job.spare.size() ? job.spare[slot_].to_string() : "none");
    if (slot_ < job.gpus.size() && job.gpus[slot_]) {
      environment.set(visible_devices, job.gpus[slot_]->visible);
      environment.set(chosen_gpu_variable, job.gpus[slot_]->text);
    }
    const auto pmi = offer_pmi(part, environment);
    if (!pmi) return std::unexpected(pmi.error());
    if (job.container) job.container->hand_on(environment);
    const auto ends = parts_.output.open(rank());
    if (!ends)
      return std::unexpected(
          StartError{1, fmt::format("cannot make a pipe for rank {}: {} (--output direct needs none)", rank(),
                                    std::strerror(ends.error()))});
    auto process = start_rank(part, pmi->get(), *ends);
    if (!process && process.error().error == ENOEXEC && is_plain_script(part.program)) {
      part.program = through_shell(std::move(part.program));
      process = start_rank(part, pmi->get(), *ends);
    }
    if (!process) return std::unexpected(explain(process.error(), part.program, rank()));
    started(*process);
  }
  return {};
}

void Launcher::started(const Process& process) {
  parts_.supervisor.started(process.pid);
  if (!process.bind_error || bind_warned_) return;
  bind_warned_ = true;
  parts_.output.message(fmt::format("warning: rank {} cannot be bound to CPU {}: {}", rank(),
                                    parts_.job.bindings[slot_].cpus.to_string(),
                                    std::strerror(process.bind_error)));
}

std::expected<void, StartError> Launcher::start_all() {
  region_ = UniqueFd(::fcntl(parts_.region.fd.get(), F_DUPFD_CLOEXEC, lowest_fd_handed_on));
  if (!region_)
    return std::unexpected(StartError{1, fmt::format("cannot hand the region on: {}", std::strerror(errno))});
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
