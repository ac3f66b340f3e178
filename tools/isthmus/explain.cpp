#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "commands.hpp"

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

}  // namespace

int explain(const std::vector<std::string>& command, bool json) {
  ::setenv("ISTHMUS_EXPLAIN", json ? "json" : "1", 1);
  return become_command(command);
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
