#include "container/container.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/settings.hpp"
#include "base/trace_file.hpp"
#include "binding/gpu_binding.hpp"
#include "command/words.hpp"
#include "container/compatible.hpp"
#include "place/cpu_set.hpp"

namespace isthmus::mpiexec {
namespace {

/// The folder that Isthmus is installed in, if containers need and may have it at its place: not /usr, which
/// an image has itself.
std::string installation() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto prefix = self.parent_path().parent_path();
  if (error || prefix == "/" || prefix == "/usr" || prefix == "/usr/local") return {};
  return std::filesystem::exists(prefix / "lib" / "libmpi_abi.so.1", error) ? prefix.string() : std::string();
}

/// Names of the variables that a container shall have: Isthmus's own and what the user has set for the ranks.
std::set<std::string> exported(const Environment& environment, const Part& part,
                               const std::vector<Export>& exports) {
  std::set<std::string> names(launcher_variable::all.begin(), launcher_variable::all.end());
  names.insert({"PMI_FD", "PMI_RANK", "PMI_SIZE", trace_file_variable});
  for (const std::string& name : environment.names())
    if (name.starts_with("ISTHMUS_")) names.insert(name);
  for (const auto* list : {&exports, &part.exports})
    for (const Export& entry : *list)
      names.insert(entry.name);
  return names;
}

/// How many hardware threads a list such as "0-3,8" names; nothing if it is not one.
std::optional<std::uint32_t> count_cpus(std::string_view list) {
  const auto cpus = CpuSet::parse(list);
  return cpus && !cpus->empty() ? std::optional(static_cast<std::uint32_t>(cpus->size())) : std::nullopt;
}

}  // namespace

Container::Container(const Options& options, std::string label)
    : words_(options.container),
      label_(std::move(label)),
      compatible_environment_(options.compatible_environment),
      takes_traces_back_(options.ranks_per_process == 1),
      gpu_bound_(options.gpu_bind.how != GpuBind::How::none) {
  const std::string engine = words_.front().substr(words_.front().rfind('/') + 1);
  engine_ = engine == "podman"                                 ? Engine::podman
            : engine == "docker"                               ? Engine::docker
            : engine == "apptainer" || engine == "singularity" ? Engine::apptainer
                                                               : Engine::other;
  verb_ = static_cast<std::size_t>(
      std::find_if(words_.begin() + 1, words_.end(),
                   [](const std::string& word) { return word == "run" || word == "exec"; }) -
      words_.begin());
  if (verb_ == words_.size()) engine_ = Engine::other;
  const bool asked_for = !options.rendezvous.empty();
  if (asked_for || engine_ == Engine::docker) rendezvous_ = Rendezvous::socket;
  parent_ = asked_for ? options.rendezvous : "/tmp";
}

bool Container::says(std::string_view option) const {
  return std::any_of(
      words_.begin() + static_cast<std::ptrdiff_t>(verb_), words_.end(),
      [&](const auto& word) { return word == option || word.starts_with(std::string(option) + '='); });
}

/// A container that runs already has the mounts that it has.
void Container::add_mounts(std::vector<std::string>& words) const {
  const std::string_view option = engine_ == Engine::apptainer ? "--bind" : "--volume";
  if (engine_ != Engine::apptainer && !runs()) return;
  if (const std::string prefix = installation(); !prefix.empty())
    words.insert(words.end(), {std::string(option), fmt::format("{0}:{0}:ro", prefix)});
  if (!folder_.empty()) words.insert(words.end(), {std::string(option), fmt::format("{0}:{0}", folder_)});
}

Container::Command Container::wrap(const Part& part, const Environment& environment,
                                   const std::vector<Export>& exports) const {
  std::vector<std::string> added;
  const bool is_daemon = engine_ == Engine::podman || engine_ == Engine::docker;
  if (is_daemon) {
    if (!says("-i") && !says("--interactive")) added.emplace_back("--interactive");
    std::set<std::string> names = exported(environment, part, exports);
    if (gpu_bound_) names.insert(visible_devices);
    if (compatible_environment_) names.insert(compatible_variables().begin(), compatible_variables().end());
    for (const std::string& name : names)
      added.insert(added.end(), {"--env", name});
    if (runs()) {
      if (!says("--rm")) added.emplace_back("--rm");
      added.insert(added.end(), {"--label", "isthmus.job=" + label_});
    }
  }
  if (engine_ == Engine::podman && rendezvous_ == Rendezvous::inherited)
    added.push_back(
        fmt::format("--preserve-fds={}", takes_traces_back_ && environment.get(trace_variable) ? 4 : 3));
  add_mounts(added);
  Part wrapped = part;
  if (wrapped.directory && engine_ != Engine::other) {
    added.insert(added.end(), {is_daemon ? "--workdir" : "--pwd", *wrapped.directory});
    wrapped.directory.reset();
  }
  wrapped.command = words_;
  wrapped.command.insert(
      wrapped.command.begin() + static_cast<std::ptrdiff_t>(std::min(verb_ + 1, words_.size())),
      added.begin(), added.end());
  const std::size_t own = wrapped.command.size();
  wrapped.command.insert(wrapped.command.end(), part.command.begin(), part.command.end());
  return {std::move(wrapped), own};
}

/// Apptainer gives a container what has its prefix even with --cleanenv.
void Container::hand_on(Environment& environment) const {
  if (engine_ != Engine::apptainer) return;
  const auto compatible = compatible_variables();
  for (const std::string& name : environment.names())
    if (name.starts_with("ISTHMUS_") || name.starts_with("PMI_") || (gpu_bound_ && name == visible_devices) ||
        (compatible_environment_ && std::ranges::find(compatible, name) != compatible.end()))
      for (const char* prefix : {"APPTAINERENV_", "SINGULARITYENV_"})
        environment.set(prefix + name, *environment.get(name));
}

std::string Container::removal() const {
  if ((engine_ != Engine::podman && engine_ != Engine::docker) || !runs()) return {};
  const std::string engine =
      shell_quoted({words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(verb_)});
  return fmt::format(
      "{0} ps --all --quiet --filter label=isthmus.job={1} | xargs -r {0} rm --force{2} >/dev/null 2>&1",
      engine, label_, engine_ == Engine::podman ? " --time 0" : "");
}

std::optional<std::uint32_t> Container::processors() const {
  for (std::size_t i = verb_; i < words_.size(); ++i) {
    if (words_[i].starts_with("--cpuset-cpus=")) return count_cpus(words_[i].substr(words_[i].find('=') + 1));
    if (words_[i] == "--cpuset-cpus" && i + 1 < words_.size()) return count_cpus(words_[i + 1]);
  }
  return std::nullopt;
}

}  // namespace isthmus::mpiexec
