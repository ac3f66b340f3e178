#include "pair_runs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <sstream>
#include <system_error>

#include "base/unique_fd.hpp"

namespace isthmus::tool {
namespace {

/// A bar on stderr, where that is a terminal.
class Bar {
 public:
  explicit Bar(std::size_t steps) : steps_(steps), shown_(::isatty(STDERR_FILENO) != 0) {}
  ~Bar() {
    if (shown_) std::fprintf(stderr, "\r%78s\r", "");
  }
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;

  void step(const std::string& what) {
    if (!shown_) return;
    constexpr std::size_t width = 30;
    const std::size_t full = width * done_++ / steps_;
    fmt::print(stderr, "\r[{:#<{}}{:{}}] {:>3} of {}  {:<34.34}", "", full, "", width - full, done_, steps_,
               what);
  }

 private:
  std::size_t steps_;
  std::size_t done_ = 0;
  bool shown_;
};

std::vector<std::string> command_for(const Curve& curve, const Way& way, int batches) {
  const std::string root = installation();
  std::vector<std::string> words{root + "/bin/mpiexec", "-n", "2", "--timeout", "120"};
  for (const std::string& variable : way.variables)
    words.insert(words.end(), {"-x", variable});
  words.insert(words.end(), {root + "/libexec/isthmus/measure_pair", curve.many ? "bandwidth" : "latency",
                             std::to_string(batches)});
  std::ranges::transform(curve.sizes, std::back_inserter(words),
                         [](std::uint64_t size) { return std::to_string(size); });
  return words;
}

/// What the command prints. stderr stays the user's.
std::expected<std::string, std::string> output_of(const std::vector<std::string>& words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(std::string("no pipe: ") + std::strerror(errno));
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(std::string("no process: ") + std::strerror(errno));
  if (pid == 0) {
    ::dup2(writer.get(), STDOUT_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  writer.reset();
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = ::read(reader.get(), buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(count));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  return std::unexpected(WIFEXITED(status) && WEXITSTATUS(status) == 127
                             ? words[0] + " cannot be started"
                             : "the two ranks that measure have failed");
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

std::expected<void, std::string> measure(std::vector<Curve>& curves, const Effort& effort) {
  std::size_t jobs = 0;
  for (Curve& curve : curves) {
    jobs += curve.ways.size() * static_cast<std::size_t>(effort.runs);
    curve.times.assign(curve.ways.size(),
                       std::vector<double>(curve.sizes.size(), std::numeric_limits<double>::infinity()));
  }
  Bar bar(jobs);
  for (Curve& curve : curves)
    for (int run = 0; run < effort.runs; ++run)
      for (std::size_t way = 0; way < curve.ways.size(); ++way) {
        bar.step(curve.name);
        const auto text = output_of(command_for(curve, curve.ways[way], effort.batches));
        if (!text) return std::unexpected(text.error());
        const auto times = times_in(*text, curve);
        if (!times) return std::unexpected(times.error());
        for (std::size_t i = 0; i < times->size(); ++i)
          curve.times[way][i] = std::min(curve.times[way][i], (*times)[i]);
      }
  return {};
}

}  // namespace isthmus::tool
