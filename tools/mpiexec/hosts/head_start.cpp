#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/system/open_files.hpp"
#include "command/hosts.hpp"
#include "command/words.hpp"
#include "hosts/agent.hpp"
#include "hosts/head.hpp"
#include "launch/region/shared_region.hpp"
#include "launch/visit/region_socket.hpp"
#include "ranks/process.hpp"

namespace isthmus::mpiexec {
namespace {

std::string path_of_mpiexec() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::string working_folder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

std::uint32_t total_ranks(const std::vector<Part>& parts) {
  std::uint32_t total = 0;
  for (const Part& part : parts)
    total += part.ranks.value_or(1);
  return total;
}

/// Agents write whole lines, with tags where they are wanted.
OutputMode mode_here(OutputMode mode) {
  return mode == OutputMode::tagged ? OutputMode::lines : mode;
}

}  // namespace

std::string installed_in() {
  return std::filesystem::path(path_of_mpiexec()).parent_path().parent_path().string();
}

Head::Head(const Options& options, const Signals& signals, Guard& guard)
    : options_(options),
      signals_(signals),
      guard_(guard),
      output_(mode_here(options.output), static_cast<std::uint32_t>(options.hosts.size())),
      world_(total_ranks(options.parts)) {
  const std::string& first = options.parts.front().command.front();
  job_ = fmt::format("{:.48}.{}", first.substr(first.rfind('/') + 1), ::getpid());
  const auto dealt = deal_ranks(options.hosts, world_);
  std::vector<std::uint32_t> used;
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < dealt.size(); ++i) {
    if (dealt[i] == 0) continue;
    hosts_.push_back({.name = options.hosts[i].name, .first_rank = rank, .ranks = dealt[i]});
    used.push_back(dealt[i]);
    rank += dealt[i];
  }
  mapping_ = process_mapping(used);
  // With one host ranks have nowhere else to go.
  if (!options.migratable || used.size() < 2) return;
  const auto word = launch::make_job_key();
  migration_ = fmt::format("{}:{}:{}", word ? launch::key_text(*word) : std::string("none"),
                           options.ranks_per_process, fmt::join(used, ","));
}

Order Head::order_for(const Host& host) const {
  Options options = options_;
  options.parts = share_of(options_.parts, host.first_rank, host.ranks);
  if (options.output == OutputMode::automatic && ::isatty(STDOUT_FILENO) == 0)
    options.output = OutputMode::lines;
  Order order{.job = job_,
              .folder = working_folder(),
              .environment = {},
              .first_rank = host.first_rank,
              .world = world_,
              .mapping = mapping_,
              .migration = migration_,
              .options = std::move(options)};
  for (char** entry = environ; entry && *entry; ++entry)
    order.environment.emplace_back(*entry);
  return order;
}

std::expected<Program, StartError> Head::command_for(std::size_t index,
                                                     const std::vector<std::string>& addresses) const {
  const std::string& name = hosts_[index].name;
  std::vector<std::string> agent{path_of_mpiexec(), agent_word, std::to_string(index),
                                 std::to_string(listener_.port)};
  agent.insert(agent.end(), addresses.begin(), addresses.end());
  Part part;
  if (!options_.launcher.empty())
    part.command = options_.launcher;
  else if (is_here(name))
    part.command = {"/bin/sh", "-c"};
  else
    part.command = {"ssh", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"};
  if (!options_.launcher.empty() || !is_here(name)) part.command.push_back(name);
  part.command.push_back("exec " + shell_quoted(agent));
  return find_program(part, Environment::inherited());
}

std::optional<StartError> Head::start_agent(std::size_t index, const std::vector<std::string>& addresses) {
  Host& host = hosts_[index];
  const auto program = command_for(index, addresses);
  if (!program) return program.error();
  host.feed = std::make_unique<Feed>(launch::key_text(key_) + '\n', host.first_rank == 0);
  const auto ends = output_.open(static_cast<std::uint32_t>(index));
  if (!ends || host.feed->reader() < 0)
    return StartError{1, fmt::format("host {}: cannot make a pipe: {}", host.name, std::strerror(errno))};
  std::vector<const char*> arguments;
  for (const std::string& word : program->arguments)
    arguments.push_back(word.c_str());
  arguments.push_back(nullptr);
  const Environment environment = Environment::inherited();
  const auto variables = environment.pointers();
  const auto process = start_process({.path = program->path.c_str(),
                                      .arguments = arguments.data(),
                                      .environment = variables.data(),
                                      .directory = nullptr,
                                      .cpus = nullptr,
                                      .standard = {host.feed->reader(), ends->out.get(), ends->err.get()},
                                      .handed_on = {},
                                      .group = guard_.group(),
                                      .inherited = &signals_.inherited()});
  if (!process) return explain_exec_error(*program, process.error().error);
  host.launcher = process->pid;
  host.feed->started();
  return std::nullopt;
}

std::optional<StartError> Head::start_agents() {
  auto listener = Listener::open();
  if (!listener) return StartError{1, listener.error()};
  listener_ = std::move(*listener);
  const auto key = launch::make_job_key();
  if (!key) return StartError{1, key.error().text()};
  key_ = *key;
  std::vector<std::vector<std::string>> addresses(hosts_.size(), {options_.head_address});
  if (options_.head_address.empty()) {
    std::vector<std::string> names;
    names.reserve(hosts_.size());
    for (const Host& host : hosts_)
      names.push_back(host.name);
    addresses = addresses_towards(names);
  }
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    if (auto error = start_agent(i, addresses[i])) return error;
  return std::nullopt;
}

int run_head(const Options& options) {
  const Signals signals;
  auto guard = Guard::start("");
  if (!guard) {
    fmt::print(stderr, "mpiexec: cannot fork: {}\n", std::strerror(guard.error()));
    return 1;
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  allow_open_files(64 + 4 * rlim_t{options.hosts.size()});
  Head head(options, signals, *guard);
  return head.run();
}

}  // namespace isthmus::mpiexec
