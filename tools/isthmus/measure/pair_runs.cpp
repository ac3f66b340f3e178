#include "measure/pair_runs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <sstream>
#include <system_error>

#include "base/unique_fd.hpp"

namespace isthmus::tool {
namespace {

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = ::read(fd, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(count));
  return text;
}

std::expected<std::vector<double>, std::string> times_in(const std::string& text, const Curve& curve) {
  std::vector<double> times;
  std::istringstream lines(text);
  std::uint64_t size = 0;
  double time = 0;
  for (const std::uint64_t wanted : curve.sizes) {
    if (!(lines >> size >> time) || size != wanted || time <= 0)
      return std::unexpected("the two ranks that measure have printed nonsense: " + text);
    times.push_back(time);
  }
  return times;
}

}  // namespace

std::string installation() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().parent_path();
}

std::vector<std::string> command_for(const Curve& curve, const Way& way, int batches) {
  const std::string root = installation();
  std::vector<std::string> words{root + "/bin/mpiexec", "-n", "2", "--timeout", "120"};
  words.insert(words.end(), curve.launch.begin(), curve.launch.end());
  for (const std::string& variable : way.variables)
    words.insert(words.end(), {"-x", variable});
  const std::string program = curve.memories.empty() ? "measure_pair" : "measure_gpu_pair";
  const std::string mode =
      (curve.many ? "bandwidth" : "latency") + (curve.data.empty() ? "" : '-' + curve.data);
  words.insert(words.end(), {root + "/libexec/isthmus/" + program, mode, std::to_string(batches)});
  words.insert(words.end(), curve.memories.begin(), curve.memories.end());
  std::ranges::transform(curve.sizes, std::back_inserter(words),
                         [](std::uint64_t size) { return std::to_string(size); });
  return words;
}

Output run(const std::vector<std::string>& words, Output::Errors errors) {
  const auto failed = [](const char* what) {
    return Output{.errors = std::string(what) + std::strerror(errno)};
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed("no pipe: ");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  UniqueFd kept;
  if (errors == Output::Errors::kept) {
    kept = UniqueFd(::memfd_create("isthmus-errors", MFD_CLOEXEC));
    if (!kept) return failed("no memory for what a command says: ");
  }
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return failed("no process: ");
  if (pid == 0) {
    ::dup2(writer.get(), STDOUT_FILENO);
    if (kept) ::dup2(kept.get(), STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  writer.reset();
  Output output{.text = read_all(reader.get())};
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (kept && ::lseek(kept.get(), 0, SEEK_SET) == 0) output.errors = read_all(kept.get());
  output.succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127 && output.errors.empty())
    output.errors = words[0] + " cannot be started";
  return output;
}

std::size_t jobs_for(const Curve& curve, const Effort& effort) {
  return curve.ways.size() * static_cast<std::size_t>(effort.runs);
}

std::expected<std::vector<double>, std::string> measure_once(const Curve& curve, const Way& way,
                                                             int batches) {
  const Output output = run(command_for(curve, way, batches), Output::Errors::shown);
  if (!output.succeeded)
    return std::unexpected(output.errors.empty() ? "the two ranks that measure have failed" : output.errors);
  return times_in(output.text, curve);
}

std::expected<void, std::string> measure(Curve& curve, const Effort& effort, ProgressBar& bar) {
  curve.times.assign(curve.ways.size(),
                     std::vector<double>(curve.sizes.size(), std::numeric_limits<double>::infinity()));
  for (int run_number = 0; run_number < effort.runs; ++run_number)
    for (std::size_t way = 0; way < curve.ways.size(); ++way) {
      bar.begin_job(curve.name);
      const auto times = measure_once(curve, curve.ways[way], effort.batches);
      if (!times) return std::unexpected(times.error());
      for (std::size_t i = 0; i < times->size(); ++i)
        curve.times[way][i] = std::min(curve.times[way][i], (*times)[i]);
    }
  return {};
}

}  // namespace isthmus::tool
