#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command/environment.hpp"
#include "command/options.hpp"

namespace isthmus::mpiexec {

/// The number that a descriptor has in a container: podman hands on those from 3 without a gap.
inline constexpr int container_region_fd = 3;
inline constexpr int container_pmi_fd = 4;
inline constexpr int container_box_fd = 5;
inline constexpr int container_trace_fd = 6;

/// How a rank in its container gets at the job's region.
enum class Rendezvous : std::uint8_t {
  inherited,  ///< as descriptor 3, with PMI's, the box's and that of the rank's trace beside it
  socket,     ///< from a socket in a folder that the container sees: docker passes no descriptors
};

/// The command of --container, to which a rank's program and its arguments are appended.
///
/// Podman, docker and apptainer (singularity) are recognised by the command's base name and its `run` or
/// `exec`; they are given what else they need: the variables, the descriptor or the folder, the folder that
/// Isthmus is installed in, standard input, and for `run` a label and --rm, so that nothing is left of a job
/// that is ended. Any other command (unshare, chroot, nsenter, a script) hands descriptors and variables on
/// by itself.
class Container {
 public:
  /// `label` is this job's and no other's, in letters and digits.
  Container(const Options& options, std::string label);

  [[nodiscard]] Rendezvous rendezvous() const noexcept { return rendezvous_; }
  /// Where the socket's folder shall be made.
  [[nodiscard]] const std::string& rendezvous_parent() const noexcept { return parent_; }
  /// Before `wrap`: the folder, which the engines are told to mount at its place.
  void mount(std::string folder) { folder_ = std::move(folder); }

  /// The command line that starts `part` in a container. {rank} and {job} stand in its words up to `words()`.
  struct Command {
    Part part;
    std::size_t own_words;  ///< the rest is the program and its arguments
  };
  [[nodiscard]] Command wrap(const Part& part, const Environment& environment,
                             const std::vector<Export>& exports) const;
  /// For a rank whose variables are all in `environment`: what makes the engine hand them on.
  void hand_on(Environment& environment) const;

  /// Whether mpiexec hands ranks files for their traces. Where several are a process, they have to see the
  /// folder.
  [[nodiscard]] bool takes_traces_back() const noexcept { return takes_traces_back_; }

  /// A shell command that removes what the job's containers may have left; empty if they leave nothing.
  [[nodiscard]] std::string removal() const;
  /// Hardware threads that the command confines each container to, if it says so.
  [[nodiscard]] std::optional<std::uint32_t> processors() const;

 private:
  enum class Engine : std::uint8_t { other, podman, docker, apptainer };
  [[nodiscard]] bool runs() const { return verb_ < words_.size() && words_[verb_] == "run"; }
  [[nodiscard]] bool says(std::string_view option) const;
  void add_mounts(std::vector<std::string>& words) const;

  std::vector<std::string> words_;
  std::string label_;
  bool compatible_environment_;
  bool takes_traces_back_;
  bool gpu_bound_;
  Engine engine_ = Engine::other;
  std::size_t verb_ = 0;  ///< index of `run` or `exec`
  Rendezvous rendezvous_ = Rendezvous::inherited;
  std::string parent_;
  std::string folder_;
};

}  // namespace isthmus::mpiexec
