#include "simulate/command.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/unique_fd.hpp"
#include "simulate/report.hpp"
#include "tune/plot.hpp"

namespace isthmus::tool {
namespace {

constexpr const char* scaling_plotter = "plot_scaling.py";

/// Says on stderr why where that fails.
bool draw_scaling(std::string_view json, const std::string& file) {
  const UniqueFd memory(::memfd_create("isthmus-scaling", MFD_CLOEXEC));
  while (memory && !json.empty()) {
    const ssize_t written = ::write(memory.get(), json.data(), json.size());
    if (written < 0 && errno != EINTR) break;
    if (written > 0) json.remove_prefix(static_cast<std::size_t>(written));
  }
  if (!json.empty()) {
    fmt::print(stderr, "isthmus: no memory for the curves, so nothing is drawn: {}\n", std::strerror(errno));
    return false;
  }
  const bool drawn =
      run_plotter(scaling_plotter, {fmt::format("/proc/{}/fd/{}", ::getpid(), memory.get()), file});
  if (drawn) fmt::print(stderr, "isthmus: drawn: {}\n", file);
  return drawn;
}

}  // namespace

int simulate_job(const SimulateOptions& options) {
  std::ifstream file(options.costs);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    fmt::print(stderr, "isthmus: {} cannot be read: {}\n", options.costs, std::strerror(errno));
    return 2;
  }
  const auto refuse = [&](const Error& error) {
    fmt::print(stderr, "isthmus: {}: {}\n", options.costs, error.text());
    return 2;
  };
  const Result<simulate::Costs> costs = simulate::read_costs(text);
  if (!costs) return refuse(costs.error());
  const Result<simulate::Report> report = simulate::simulate(*costs, options.gpus);
  if (!report) return refuse(report.error());
  const std::string json = simulate::json_of(*costs, *report);
  fmt::print("{}", options.json ? json : simulate::text_of(*costs, *report));
  int status = 0;
  if (options.within > 0 && report->checked.empty()) {
    fmt::print(stderr, "isthmus: {} has no measured points, so nothing was compared\n", options.costs);
    status = 1;
  }
  if (options.within > 0 && 100 * simulate::worst(*report) > options.within) {
    fmt::print(stderr, "isthmus: a measured point is {:.1f} % off, more than {:g} %\n",
               100 * simulate::worst(*report), options.within);
    status = 1;
  }
  if (!options.picture.empty() && !draw_scaling(json, options.picture)) status = 1;
  return status;
}

}  // namespace isthmus::tool
