#include "plot.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "pair_runs.hpp"

namespace isthmus::tool {
namespace {

bool run_script(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"python3", installation() + "/share/isthmus/plot_tuning.py"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Output output = run(words, Output::Errors::shown);
  if (!output.succeeded && !output.errors.empty())
    fmt::print(stderr, "isthmus: {}, so nothing is drawn (Debian: python3-matplotlib)\n", output.errors);
  return output.succeeded;
}

}  // namespace

bool plot(const std::string& table, const std::string& prefix) {
  return run_script({table, prefix});
}

void warn_of_missing_plotter() {
  if (!run_script({"--check"}))
    fmt::print(
        stderr,
        "isthmus: the table is made without it; isthmus tune --from TABLE --plot PREFIX draws it later\n");
}

}  // namespace isthmus::tool
