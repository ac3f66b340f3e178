#include "launch/launcher/key_values.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "base/plugin.hpp"
#include "base/whole_number.hpp"
#include "launch/launcher/pmi1.hpp"
#include "launch/launcher/pmi2.hpp"
#include "launch/launcher/pmi_place.hpp"
#include "launch/launcher/pmix/plugin.hpp"

namespace isthmus::launch {
namespace {

/// So that programs that this one starts are jobs of their own. Rank and size stay, which programs read after
/// MPI_Init too, to choose their GPU; without PMI_FD no library takes them for a launcher.
void unset_key_values_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view variable(*entry);
    const std::string_view name = variable.substr(0, variable.find('='));
    if (is_key_values_variable(name) && name != "PMI_RANK" && name != "PMI_SIZE") names.emplace_back(name);
  }
  for (const std::string& name : names)
    ::unsetenv(name.c_str());
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::unexpected<Error> bad_variable(const char* name, std::string_view problem) {
  return fail(
      ErrorClass::arg,
      std::string(name) + "='" + std::string(variable(name)) + "' " + std::string(problem) +
          "; PMI_FD, PMI_RANK and PMI_SIZE are set by launchers: unset them to run as a job of one rank");
}

Result<UniqueFd> launcher_descriptor() {
  const auto fd = whole_number<int>(variable("PMI_FD"));
  if (!fd || *fd < 0) return bad_variable("PMI_FD", "is not the number of a file descriptor");
  struct stat status{};
  if (::fstat(*fd, &status) != 0)
    return bad_variable("PMI_FD",
                        "is not open: something between the launcher and this program has closed it");
  if (!S_ISSOCK(status.st_mode)) return bad_variable("PMI_FD", "is not a socket of a launcher");
  ::fcntl(*fd, F_SETFD, FD_CLOEXEC);
  return UniqueFd(*fd);
}

bool is_socket(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

/// Hydra may run below srun, whose variables it hands on to its ranks: its own descriptor then comes first.
bool is_hydra() {
  const auto fd = whole_number<int>(variable("PMI_FD"));
  return fd && is_socket(*fd) && !variable("MPI_LOCALNRANKS").empty();
}

/// Whether PMI_FD is that of Slurm's plugin pmi2, which names the step in PMI_JOBID.
bool is_slurm() {
  return !variable("PMI_JOBID").empty() && !is_hydra();
}

bool is_pmix() {
  return !variable("PMIX_NAMESPACE").empty() && !variable("PMIX_RANK").empty() && !is_hydra();
}

Result<PmiPlace> pmi_place() {
  const auto rank = whole_number<std::uint32_t>(variable("PMI_RANK"));
  if (!rank) return bad_variable("PMI_RANK", "is not a rank (a whole number from 0)");
  const auto size = whole_number<std::uint32_t>(variable("PMI_SIZE"));
  if (!size || *size == 0 || *size > INT32_MAX) return bad_variable("PMI_SIZE", "is not a number of ranks");
  if (*rank >= *size)
    return bad_variable("PMI_RANK", "is not a rank of a job of " + std::to_string(*size) + " ranks");
  auto fd = launcher_descriptor();
  if (!fd) return std::unexpected(std::move(fd).error());
  return PmiPlace{
      .fd = std::move(*fd), .rank = *rank, .size = *size, .job = std::string(variable("PMI_JOBID"))};
}

constexpr PluginObject pmix_object{.file = "libisthmus_pmix.so",
                                   .symbol = pmix_plugin_symbol,
                                   .role = "the library for launchers that speak PMIx",
                                   .foreign = "PMIx",
                                   .build_package = "libpmix-dev",
                                   .run_package = "libpmix2"};

Result<std::unique_ptr<KeyValues>> connect_pmix() {
  auto symbol = load_plugin(pmix_object);
  if (!symbol) return std::unexpected(std::move(symbol).error());
  const auto* plugin = static_cast<const PmixPlugin*>(*symbol);
  if (plugin->version != pmix_interface_version) return foreign_plugin(pmix_object);
  return plugin->connect();
}

}  // namespace

bool is_key_values_variable(std::string_view name) noexcept {
  return name.starts_with("PMI_") || name.starts_with("PMIX_");
}

Result<std::unique_ptr<KeyValues>> find_key_values() {
  if (is_pmix()) {
    auto found = connect_pmix();
    unset_key_values_variables();
    return found;
  }
  if (!variable("PMI_FD").empty()) {
    const bool speaks_pmi2 = is_slurm();
    auto place = pmi_place();
    if (!place) return std::unexpected(std::move(place).error());
    unset_key_values_variables();
    return speaks_pmi2 ? Pmi2::connect(std::move(*place)) : Pmi1::connect(std::move(*place));
  }
  return nullptr;
}

void forget_key_values() {
  const auto fd = whole_number<int>(variable("PMI_FD"));
  if (fd && *fd > STDERR_FILENO) ::fcntl(*fd, F_SETFD, FD_CLOEXEC);
  unset_key_values_variables();
}

}  // namespace isthmus::launch
