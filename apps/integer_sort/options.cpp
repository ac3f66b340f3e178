#include "options.hpp"

#include <string>

namespace integer_sort {

std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int /*processes*/) {
  Options options{.problem = find_problem('A'), .output = {}};
  CLI::App app(
      "Ranks integer keys: the problem IS of the NAS Parallel Benchmarks, by a bucket sort in plain MPI. The "
      "ranks are held against "
      "the published ones in each iteration, and at the end the keys are put in order.\nExit status: 0 "
      "correct, 1 wrong, 2 bad "
      "arguments.",
      "integer_sort");
  app.add_option_function<std::string>(
         "-c,--class", [&options](const std::string& name) { options.problem = find_problem(name[0]); },
         "S, W, A (default), B or C: 2^16, 2^20, 2^23, 2^25 or 2^27 keys")
      ->check(CLI::IsMember({"S", "W", "A", "B", "C"}))
      ->option_text("LETTER");
  apps::add_output_options(app, options.output);
  if (auto refusal = apps::parse(app, argc, argv)) return *refusal;
  return options;
}

}  // namespace integer_sort
