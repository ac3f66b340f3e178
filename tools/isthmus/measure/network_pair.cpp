#include "measure/network_pair.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "measure/pair_runs.hpp"

namespace isthmus::tool {
namespace {

using Report = nlohmann::json;

/// A launcher (mpiexec --launcher) whose hosts are all this machine.
constexpr const char* launcher_of_here = R"(sh -c 'exec sh -c "$1"')";

/// The report of `isthmus explain --json` in what a job has printed; null where there is none.
Report report_in(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(R"({"isthmus_explain")")) return Report::parse(line, nullptr, false);
  return {};
}

/// What a failed job has said: the first line that is MPI's or mpiexec's own, since hosts may greet; else the
/// first.
std::string complaint(const std::string& text) {
  std::istringstream lines(text);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (line.contains("MPI_") || line.contains("mpiexec: ")) return line;
    if (first.empty()) first = line;
  }
  return first.empty() ? "the job has failed without a word" : first;
}

}  // namespace

std::expected<NetworkPair, std::string> find_network_pair(const std::string& hosts,
                                                          const std::string& launcher) {
  NetworkPair pair{.within_one_machine = hosts.empty()};
  // Static locality: what shares memory does not do so here, and one machine is two hosts.
  pair.launch = {"--hosts", hosts.empty() ? "here,there" : hosts, "-x", "ISTHMUS_LOCALITY=static"};
  if (hosts.empty())
    pair.launch.insert(pair.launch.end(), {"--launcher", launcher_of_here, "--head-address", "127.0.0.1"});
  else if (!launcher.empty())
    pair.launch.insert(pair.launch.end(), {"--launcher", launcher});
  Curve greeting{.sizes = {8}, .launch = pair.launch};
  const Output output = run(command_for(greeting, {.label = "", .variables = {"ISTHMUS_EXPLAIN=json"}}, 1),
                            Output::Errors::kept);
  if (!output.succeeded) return std::unexpected(complaint(output.errors));
  try {
    const Report peer = report_in(output.errors).at("ranks").at(0).at("peers").at(1);
    pair.description = (hosts.empty() ? "within this machine: " : "between " + hosts + ": ") +
                       peer.at("transport").get<std::string>();
    pair.eager_limit = peer.at("steps").at(0).at("up_to").get<std::uint64_t>();
  } catch (const Report::exception&) {
    return std::unexpected("two ranks on " + pair.launch[1] + " did not tell which way their messages took");
  }
  return pair;
}

}  // namespace isthmus::tool
