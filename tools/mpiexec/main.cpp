#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string_view>
#include <variant>
#include <vector>

#include "command/options.hpp"
#include "hosts/agent.hpp"
#include "hosts/head.hpp"
#include "node/run_job.hpp"

namespace isthmus::mpiexec {
namespace {

constexpr int status_usage = 2;

/// So that no descriptor of ours is taken for a standard one.
void open_standard_descriptors() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
}

int run(const Options& options) {
  if (!options.hosts.empty()) return run_head(options);
  const std::vector<pid_t> bystanders = present_children();
  const Signals signals;
  return run_job(options, signals, bystanders, nullptr);
}

int print(const PrintAndExit& request) {
  const bool printed = std::fputs(request.text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return printed ? 0 : 1;
}

}  // namespace
}  // namespace isthmus::mpiexec

int main(int count, char** arguments) try {
  using namespace isthmus::mpiexec;
  open_standard_descriptors();
  if (count > 1 && std::string_view(arguments[1]) == agent_word)
    return run_agent({arguments + 2, arguments + count});
  const Request request = parse({arguments + 1, arguments + count});
  if (const auto* text = std::get_if<PrintAndExit>(&request)) return print(*text);
  if (const auto* error = std::get_if<UsageError>(&request)) {
    fmt::print(stderr, "mpiexec: {}\n", error->text);
    return status_usage;
  }
  return run(std::get<Options>(request));
} catch (const std::exception& error) {
  std::fprintf(stderr, "mpiexec: %s\n", error.what());  // ranks that run die with mpiexec
  return 1;
}
