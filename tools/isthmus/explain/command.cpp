#include "explain/command.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/unique_fd.hpp"
#include "child.hpp"
#include "commands.hpp"
#include "explain/report_filter.hpp"
#include "tune/plot.hpp"

namespace isthmus::tool {
namespace {

/// For mpiexec and mpirun, those that lie beside this program: another MPI's, which may come first in PATH,
/// would start singletons. Else the name as it is.
std::string program_for(const std::string& name) {
  if (name != "mpiexec" && name != "mpirun") return name;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return name;
  const std::string beside = self.parent_path() / name;
  return ::access(beside.c_str(), X_OK) == 0 ? beside : name;
}

constexpr const char* ranks_plotter = "plot_ranks.py";

/// FILE.svg for the first, FILE-2.svg for the second.
std::string numbered(const std::string& file, std::size_t index) {
  if (index == 0) return file;
  std::filesystem::path path(file);
  path.replace_filename(fmt::format("{}-{}{}", path.stem().string(), index + 1, path.extension().string()));
  return path;
}

/// Draws a report. Says on stderr why where that fails.
bool draw(const std::string& report, const std::string& file) {
  const UniqueFd memory(::memfd_create("isthmus-report", MFD_CLOEXEC));
  std::string_view left = report;
  while (memory && !left.empty()) {
    const ssize_t written = ::write(memory.get(), left.data(), left.size());
    if (written < 0 && errno != EINTR) break;
    if (written > 0) left.remove_prefix(static_cast<std::size_t>(written));
  }
  if (!left.empty()) {
    fmt::print(stderr, "isthmus: no memory for the report, so nothing is drawn: {}\n", std::strerror(errno));
    return false;
  }
  const bool drawn =
      run_plotter(ranks_plotter, {fmt::format("/proc/{}/fd/{}", ::getpid(), memory.get()), file});
  if (drawn) fmt::print(stderr, "isthmus: drawn: {}\n", file);
  return drawn;
}

}  // namespace

int explain(const ExplainOptions& options) {
  const char* const form = !options.picture.empty() ? "picture"
                           : options.json           ? "json"
                           : options.full           ? "full"
                                                    : "on";
  ::setenv("ISTHMUS_EXPLAIN", form, 1);
  if (options.picture.empty()) return become_command(options.command);
  if (!can_plot(ranks_plotter)) return 1;
  ReportFilter filter(write_errors);
  const int status = run_command(options.command, [&](std::string_view bytes) { filter.take(bytes); });
  filter.end();
  if (filter.reports().empty())
    fmt::print(
        stderr,
        "isthmus: no job has told anything, so nothing is drawn: is it a program of Isthmus's mpiexec?\n");
  bool drawn = !filter.reports().empty();
  for (std::size_t i = 0; i < filter.reports().size(); ++i)
    drawn = draw(filter.reports()[i], numbered(options.picture, i)) && drawn;
  return status != 0 ? status : drawn ? 0 : 1;
}

int become_command(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(program_for(command[0]).c_str(), arguments.data());
  const int error = errno;
  const bool missing = error == ENOENT;
  fmt::print(stderr, "isthmus: {}: {}\n", command[0],
             missing && !command[0].contains('/') ? "command not found" : std::strerror(error));
  return missing ? 127 : 126;
}

}  // namespace isthmus::tool
