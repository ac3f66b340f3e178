#include "ranks/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

namespace isthmus::mpiexec {
namespace {

constexpr int status_cannot_run = 126;
constexpr int status_not_found = 127;

std::string from_directory(const std::string& directory, const std::string& path) {
  return directory.empty() || path.starts_with('/') ? path : directory + '/' + path;
}

/// 0 if the file can be run, else the errno that exec would meet.
int check(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) return EACCES;
  return ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

StartError cannot_run(const std::string& name, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  return {missing ? status_not_found : status_cannot_run, fmt::format("{}: {}", name, std::strerror(error))};
}

StartError not_found(const std::string& name, const std::string& directory) {
  const bool here = check(from_directory(directory, name)) == 0;
  return {status_not_found, fmt::format("{}: command not found{}", name,
                                        here ? fmt::format(" (not in PATH; did you mean ./{}?)", name) : "")};
}

/// The interpreter that a script's first line names, empty if none.
std::string interpreter(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || !line.starts_with("#!")) return {};
  const std::size_t begin = line.find_first_not_of(" \t", 2);
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
}

}  // namespace

std::expected<Program, StartError> find_program(const Part& part, const Environment& environment) {
  const std::string& name = part.command.front();
  Program program{.path = name, .arguments = part.command, .directory = part.directory.value_or("")};
  if (part.directory) {
    struct stat status{};
    int error = ::stat(part.directory->c_str(), &status) == 0 ? 0 : errno;
    if (error == 0 && !S_ISDIR(status.st_mode)) error = ENOTDIR;
    if (error == 0 && ::access(part.directory->c_str(), X_OK) != 0) error = errno;
    if (error)
      return std::unexpected(
          StartError{1, fmt::format("--wdir {}: {}", *part.directory, std::strerror(error))});
  }
  if (name.contains('/')) {
    if (const int error = check(from_directory(program.directory, name)))
      return std::unexpected(cannot_run(name, error));
    return program;
  }
  bool denied = false;
  std::string_view path = environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (bool more = true; more;) {
    const std::size_t colon = path.find(':');
    more = colon != std::string_view::npos;
    program.path = colon == 0 || path.empty() ? "." : path.substr(0, colon);
    program.path.append("/").append(name);
    if (more) path.remove_prefix(colon + 1);
    const int error = check(from_directory(program.directory, program.path));
    if (error == 0) return program;
    denied = denied || error == EACCES;
  }
  return std::unexpected(denied ? cannot_run(name, EACCES) : not_found(name, program.directory));
}

StartError explain_exec_error(const Program& program, int error) {
  const std::string& name = program.arguments.front();
  if (error == ENOENT) {  // it was there a moment ago
    const std::string needed = interpreter(from_directory(program.directory, program.path));
    return {status_cannot_run, fmt::format("{}: cannot be run: {} does not exist", name,
                                           needed.empty() ? "the program loader that it asks for"
                                                          : "its interpreter " + needed)};
  }
  if (error == E2BIG)
    return {status_cannot_run, fmt::format("{}: arguments and environment are too long", name)};
  return {status_cannot_run, fmt::format("{}: {}", name, std::strerror(error))};
}

bool is_plain_script(const Program& program) {
  std::ifstream file(from_directory(program.directory, program.path), std::ios::binary);
  std::array<char, 256> start{};
  file.read(start.data(), start.size());
  return std::find(start.begin(), start.begin() + file.gcount(), '\0') == start.begin() + file.gcount();
}

Program through_shell(Program program) {
  program.arguments.front() = program.path;
  program.arguments.insert(program.arguments.begin(), "/bin/sh");
  program.path = "/bin/sh";
  if (program.own_words) ++program.own_words;
  return program;
}

}  // namespace isthmus::mpiexec
