#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "commands.hpp"
#include "measure/pair_runs.hpp"

namespace isthmus::tool {
namespace {

using Words = std::vector<std::string>;

std::string folder() {
  return installation() + "/libexec/isthmus/bench";
}

Words benchmark_names() {
  Words names;
  std::istringstream lines(run({folder() + "/isthmus_bench", "--names"}, Output::Errors::shown).text);
  for (std::string name; std::getline(lines, name);)
    names.push_back(name);
  return names;
}

void print_help() {
  fmt::print(
      "Measures MPI calls: one benchmark with two ranks or more, or several benchmarks over several MPI "
      "libraries.\n\n"
      "usage: isthmus bench [options of mpiexec] NAME [options]     one benchmark (-n 2 --bind-to core "
      "without others)\n"
      "       isthmus bench NAME --help                             the options of a benchmark\n"
      "       isthmus bench compare [options] NAME...               the same under each MPI library, in "
      "turn; --help\n\n"
      "Examples:\n"
      "  isthmus bench latency                        0 to 4 MiB between two ranks\n"
      "  isthmus bench bw -m 1M:64M -c D D            device memory to device memory, contents checked\n"
      "  isthmus bench -n 8 allreduce -f -z 50,99     eight ranks, more columns\n\n"
      "Each is a program of its own, for scripts: mpiexec -n 2 {}/latency\n\n{}",
      folder(), run({folder() + "/isthmus_bench", "--list"}, Output::Errors::shown).text);
}

/// Becomes the command. Returns only where that fails.
int become(Words words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  fmt::print(stderr, "isthmus bench: cannot run {}: {}\n", words[0], std::strerror(errno));
  return 1;
}

/// A launcher has started this process as a rank.
bool is_rank() {
  return std::ranges::any_of(std::array{"ISTHMUS_RANK", "PMI_FD", "PMIX_RANK"},
                             [](const char* name) { return std::getenv(name) != nullptr; });
}

std::string plain_name(const std::string& word) {
  return word.starts_with("osu_") ? word.substr(4) : word;
}

}  // namespace

int bench(const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "--list") {
    print_help();
    return 0;
  }
  if (words[0] == "compare") {
    Words command{"python3", installation() + "/share/isthmus/bench/tools/compare.py"};
    command.insert(command.end(), words.begin() + 1, words.end());
    return become(std::move(command));
  }
  const Words names = benchmark_names();
  const auto known = [&names](const std::string& word) {
    return std::ranges::count(names, plain_name(word)) > 0;
  };
  const auto name = std::ranges::find_if(words, known);
  if (name == words.end()) {
    const auto meant = std::ranges::find_if(words, [](const std::string& word) { return word[0] != '-'; });
    fmt::print(stderr, "isthmus bench: there is no benchmark '{}' (isthmus bench --list names them)\n",
               meant == words.end() ? words[0] : *meant);
    return 2;
  }
  const std::string program = folder() + "/" + plain_name(*name);
  const bool asks = std::any_of(name, words.end(),
                                [](const std::string& word) { return word == "--help" || word == "-h"; });
  Words command;
  if (!asks && !is_rank()) {
    command = {installation() + "/bin/mpiexec"};
    if (name == words.begin()) command.insert(command.end(), {"-n", "2", "--bind-to", "core"});
    command.insert(command.end(), words.begin(), name);
  }
  command.push_back(program);
  command.insert(command.end(), name + 1, words.end());
  return become(std::move(command));
}

}  // namespace isthmus::tool
