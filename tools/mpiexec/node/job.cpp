#include "node/job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "command/hosts.hpp"
#include "gpu/copy/copy_crew.hpp"
#include "launch/visit/region_socket.hpp"
#include "route/tuning.hpp"

namespace isthmus::mpiexec {
namespace {

StartError start_error(const Error& error) {
  return {1, error.text()};
}

/// `exports` in the environment; a NAME without value is there anyway, if mpiexec has it.
void apply(const std::vector<Export>& exports, Environment& environment, std::vector<std::string>& warnings) {
  for (const Export& entry : exports) {
    if (entry.value)
      environment.set(entry.name, *entry.value);
    else if (!environment.get(entry.name))
      warnings.push_back(fmt::format("-x {}: there is no such variable to hand on", entry.name));
  }
}

/// The settings in `environment`, checked here so that one message says what is wrong instead of each rank's.
std::expected<Settings, StartError> check_settings(const Environment& environment,
                                                   std::set<std::string>& warnings) {
  const auto pointers = environment.pointers();
  auto settings = Settings::read(pointers.data());
  if (!settings) return std::unexpected(StartError{2, settings.error().text()});
  if (std::string refused = tuning::apply(*settings); settings->warn && !refused.empty())
    warnings.insert(std::move(refused));
  if (settings->warn)
    for (std::string& warning : Settings::unknown_variables(pointers.data()))
      warnings.insert(std::move(warning));
  return *settings;
}

wire::IdlePolicy choose_idle(IdleSetting setting, std::uint32_t ranks, std::uint32_t processors) {
  if (setting == IdleSetting::spin) return wire::IdlePolicy::spin;
  if (setting == IdleSetting::sleep) return wire::IdlePolicy::sleep;
  return ranks <= processors ? wire::IdlePolicy::spin : wire::IdlePolicy::sleep;
}

/// One rank for each core, or fewer where cgroups grant less time than that.
std::uint32_t default_ranks(const Job& job) {
  return std::clamp<std::uint32_t>(job.processors, 1, static_cast<std::uint32_t>(job.topology.cores.size()));
}

/// Without --bind-to: a core for each rank, if there are enough that no other job has, else none. Jobs that
/// start at the same time, as the tests of a project do, would all be bound to the first cores otherwise.
std::vector<Binding> bind_to_free_cores(const Topology& topology, std::uint32_t ranks, MapBy map,
                                        CoreClaims& claims) {
  if (ranks > topology.cores.size()) return bind_ranks(topology, ranks, BindTo::none, map);
  if (!topology.this_machine) return bind_ranks(topology, ranks, BindTo::core, map);
  std::vector<Binding> bindings;
  for (const Core& core : claims.claim(topology, ranks, map))
    bindings.push_back(bind_around(topology, core, BindTo::core));
  return bindings.empty() ? bind_ranks(topology, ranks, BindTo::none, map) : bindings;
}

/// The container's command, with the part's program behind it.
std::expected<Program, StartError> find_wrapped(const Part& part, const Environment& environment,
                                                const Container& container,
                                                const std::vector<Export>& exports) {
  const Container::Command command = container.wrap(part, environment, exports);
  auto program = find_program(command.part, environment);
  if (program) program->own_words = command.own_words;
  return program;
}

std::expected<void, StartError> plan_container(const Options& options, Job& job) {
  auto label = launch::make_job_key();
  if (!label) return std::unexpected(start_error(label.error()));
  job.container.emplace(options, launch::key_text(*label).substr(0, 16));
  if (const auto confined = job.container->processors()) job.processors = std::min(job.processors, *confined);
  if (job.container->rendezvous() == Rendezvous::inherited) return {};
  auto server = RegionServer::listen(job.container->rendezvous_parent());
  if (!server) return std::unexpected(StartError{1, server.error()});
  job.region_server.emplace(std::move(*server));
  job.container->mount(job.region_server->folder());
  return {};
}

/// The program that holds several ranks (tools/virtual_ranks): beside this one.
std::string holder(bool migratable) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path().parent_path() / "libexec/isthmus" /
          (migratable ? "migratable_ranks" : "virtual_ranks"))
      .string();
}

/// As `program`, held by it.
void hold_several(Program& program, bool migratable) {
  program.arguments.insert(program.arguments.begin(), {holder(migratable), program.path});
  program.path = program.arguments.front();
}

/// The same for what a container starts, where programs are found by the container's PATH.
Part held(const Part& part) {
  Part result = part;
  result.command.insert(result.command.begin(), {holder(false), part.command.front()});
  return result;
}

std::expected<void, StartError> plan_parts(const Options& options, Job& job) {
  if (job.ranks_per_process > 1 && ::access(holder(options.migratable).c_str(), X_OK) != 0)
    return std::unexpected(
        StartError{1, fmt::format("--ranks-per-process: {} is missing from this installation of Isthmus",
                                  holder(options.migratable))});
  std::set<std::string> unknown;
  for (const Part& part : options.parts) {
    Environment environment = Environment::inherited_by_ranks();
    apply(options.exports, environment, job.warnings);
    apply(part.exports, environment, job.warnings);
    auto settings = check_settings(environment, unknown);
    if (!settings) return std::unexpected(settings.error());
    if (job.parts.empty()) job.settings = *settings;
    auto program = job.container ? find_wrapped(job.ranks_per_process > 1 ? held(part) : part, environment,
                                                *job.container, options.exports)
                                 : find_program(part, environment);
    if (!program) return std::unexpected(program.error());
    if (job.ranks_per_process > 1 && !job.container) hold_several(*program, options.migratable);
    const std::uint32_t ranks = part.ranks.value_or(default_ranks(job));
    job.parts.push_back(
        {part.appnum, ranks, part.all_ranks.value_or(ranks), std::move(*program), std::move(environment)});
    job.ranks += ranks;
  }
  job.warnings.insert(job.warnings.end(), unknown.begin(), unknown.end());
  return {};
}

std::expected<void, StartError> plan_gpus(const Options& options, Job& job) {
  if (options.gpu_bind.how == GpuBind::How::none) return {};
  GpuBinding binding(options.gpu_bind);
  bool none_for_some = false;
  std::size_t process = 0;
  for (const Job::PartPlan& part : job.parts)
    for (std::uint32_t i = 0; i < part.ranks; ++i) {
      const std::size_t slot = job.gpus.size();
      // A process has its GPUs for all of its ranks.
      if (i % job.ranks_per_process != 0) {
        job.gpus.push_back(job.gpus.back());
        continue;
      }
      auto choice = binding.choose(process++, job.bindings[slot], part.environment.get(visible_devices));
      if (!choice) return std::unexpected(StartError{1, choice.error()});
      none_for_some = none_for_some || !*choice;
      job.gpus.push_back(std::move(*choice));
    }
  if (none_for_some)
    job.warnings.push_back(fmt::format(
        "--gpu-bind has no effect: {}",
        binding.gpus().empty() ? "no GPU is found on this host" : "CUDA_VISIBLE_DEVICES leaves no GPU"));
  return {};
}

/// How many threads that run ranks each process has.
std::vector<std::uint32_t> workers_of_processes(const Job& job) {
  std::vector<std::uint32_t> workers;
  for (const Job::PartPlan& part : job.parts)
    for (std::uint32_t begun = 0; begun < part.ranks; begun += job.ranks_per_process)
      workers.push_back(std::min({job.workers, job.ranks_per_process, part.ranks - begun}));
  return workers;
}

/// Each process's, from those of its workers: one after the other, anywhere on what these have been dealt.
std::vector<Binding> for_processes(const Job& job, const std::vector<Binding>& of_workers) {
  if (job.workers == 1) return of_workers;
  std::vector<Binding> bindings;
  auto next = of_workers.begin();
  for (std::uint32_t left : workers_of_processes(job)) {
    Binding all = *next++;
    for (; --left > 0; ++next) {
      if (next->package != all.package) all.package = -1;
      if (next->numa != all.numa) all.numa = -1;
      if (next->core != all.core) all.core = -1;
      all.cpus |= next->cpus;
    }
    bindings.push_back(std::move(all));
  }
  return bindings;
}

/// Each rank's, from those of the processes.
std::vector<Binding> for_ranks(const Job& job, const std::vector<Binding>& of_processes) {
  if (job.ranks_per_process == 1) return of_processes;
  std::vector<Binding> bindings;
  std::size_t process = 0;
  for (const Job::PartPlan& part : job.parts)
    for (std::uint32_t rank = 0; rank < part.ranks; ++rank) {
      if (rank > 0 && rank % job.ranks_per_process == 0) ++process;
      if (rank == 0 && !bindings.empty()) ++process;
      bindings.push_back(of_processes[process]);
    }
  return bindings;
}

}  // namespace

std::expected<Job, StartError> Job::plan(const Options& options, const std::optional<Share>& share) {
  auto topology = Topology::load();
  if (!topology) return std::unexpected(start_error(topology.error()));
  Job job{.host = launch::host_name(),
          .topology = std::move(*topology),
          .ranks_per_process = options.ranks_per_process,
          .workers = options.workers,
          .migratable = options.migratable,
          .compatible_environment = options.compatible_environment};
  const auto threads = static_cast<std::uint32_t>(job.topology.cpus.size());
  const unsigned quota = processor_quota();
  job.processors = quota == 0 ? threads : std::min(threads, quota);
  if (!options.container.empty())
    if (auto planned = plan_container(options, job); !planned) return std::unexpected(planned.error());
  if (auto planned = plan_parts(options, job); !planned) return std::unexpected(planned.error());
  const std::string& first = job.parts.front().program.arguments.front();
  job.name = fmt::format("{:.48}.{}", first.substr(first.rfind('/') + 1), ::getpid());
  if (share)
    job.share = *share;
  else
    job.share = {.job = job.name, .world = job.ranks, .mapping = process_mapping({job.ranks})};
  job.name = job.share.job;
  job.outlive = options.outlive;
  // Several ranks of a process cannot spin: one waits for the other.
  job.idle = job.ranks_per_process > 1 && job.settings.idle == IdleSetting::automatic
                 ? wire::IdlePolicy::sleep
                 : choose_idle(job.settings.idle, job.ranks, job.processors);
  const bool confined =
      job.container && job.container->processors();  // by its engine, to what we do not know
  const auto bind = confined ? std::optional(BindTo::none) : options.bind;
  const std::vector<std::uint32_t> workers = workers_of_processes(job);
  const std::uint32_t threads_in_turn = std::accumulate(workers.begin(), workers.end(), std::uint32_t{0});
  job.bindings = for_ranks(
      job,
      for_processes(job, bind ? bind_ranks(job.topology, threads_in_turn, *bind, options.map)
                              : bind_to_free_cores(job.topology, threads_in_turn, options.map, job.claims)));
  // Of processes on several cores each it is not known which core is left.
  if (job.topology.this_machine && job.workers == 1 && job.processors > threads_in_turn)
    job.spare =
        deal_spare(job.topology, job.bindings, CopyCrew::most_helpers, job.processors - threads_in_turn);
  if (auto planned = plan_gpus(options, job); !planned) return std::unexpected(planned.error());
  return job;
}

std::expected<launch::SharedRegion, StartError> Job::make_region() const {
  auto key = launch::make_job_key();
  if (!key) return std::unexpected(start_error(key.error()));
  const std::uint32_t slots = share.migration.empty() ? ranks : share.world;
  auto region =
      launch::make_region(wire::RegionShape::of(slots, share.world, launch::ring_geometry(settings, slots)),
                          {.key = *key,
                           .idle = idle,
                           .cores = processors,
                           .universe = std::max(share.world, processors),
                           .outlives = outlive,
                           .job = name.c_str(),
                           .host = host.c_str()});
  if (!region) return std::unexpected(start_error(region.error()));
  for (std::uint32_t other = 0; other < slots; ++other)
    region->view.block(other).process.store(wire::RankBlock::elsewhere, std::memory_order_relaxed);
  std::uint32_t slot = 0;
  for (const PartPlan& part : parts)
    for (std::uint32_t i = 0; i < part.ranks; ++i, ++slot) {
      wire::RankBlock& block = region->view.block(first_slot() + slot);
      wire::PlaceRecord& place = block.place;
      block.process.store(0, std::memory_order_relaxed);
      place.rank = share.first_rank + slot;
      place.appnum = part.appnum;
      place.package = bindings[slot].package;
      place.numa = bindings[slot].numa;
      place.core = bindings[slot].core;
    }
  return std::move(*region);
}

std::string Job::summary() const {
  const bool spins = idle == wire::IdlePolicy::spin;
  return fmt::format(
      "job {} on host {}: {} rank{}, {} processor{} (CPU {}); waiting ranks {}\n", name, host, ranks,
      ranks == 1 ? "" : "s", processors, processors == 1 ? "" : "s", topology.cpus.to_string(),
      ranks_per_process > 1
          ? fmt::format("take turns, {} in a process{}", ranks_per_process,
                        workers > 1 ? fmt::format(" of {} threads", workers) : std::string())
      : settings.idle != IdleSetting::automatic
          ? fmt::format("{}, as ISTHMUS_IDLE has it", spins ? "spin" : "sleep")
          : (spins ? "spin: each has a processor" : "sleep: there are more ranks than processors"));
}

std::string Job::binding_report() const {
  std::string text;
  for (std::size_t rank = 0; rank < bindings.size(); ++rank)
    text += fmt::format("rank {}: {}{}\n", share.first_rank + rank, bindings[rank].to_string(),
                        rank < gpus.size() && gpus[rank] ? ", GPU " + gpus[rank]->text : "");
  if (!topology.this_machine) text += "(a topology that is not this machine's: nothing is bound)\n";
  return text;
}

}  // namespace isthmus::mpiexec
