#include "tune/plot.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "measure/pair_runs.hpp"

namespace isthmus::tool {
namespace {

constexpr const char* tuning_plotter = "plot_tuning.py";

}  // namespace

bool run_plotter(const char* script, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"python3", fmt::format("{}/share/isthmus/{}", installation(), script)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Output output = run(words, Output::Errors::shown);
  if (!output.succeeded && !output.errors.empty())
    fmt::print(stderr, "isthmus: {}, so nothing is drawn (Debian: python3-matplotlib)\n", output.errors);
  return output.succeeded;
}

bool can_plot(const char* script) {
  return run_plotter(script, {"--check"});
}

bool plot(const std::string& table, const std::string& prefix) {
  return run_plotter(tuning_plotter, {table, prefix});
}

void warn_of_missing_plotter() {
  if (!can_plot(tuning_plotter))
    fmt::print(
        stderr,
        "isthmus: the table is made without it; isthmus tune --from TABLE --plot PREFIX draws it later\n");
}

}  // namespace isthmus::tool
