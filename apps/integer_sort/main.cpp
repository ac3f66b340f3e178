// integer_sort: the integer sort of the NAS Parallel Benchmarks in plain MPI. See --help.
#include "benchmark.hpp"
#include "common/session.hpp"
#include "options.hpp"
#include "report.hpp"

int main(int argc, char** argv) {
  using namespace integer_sort;
  return apps::run_application("integer_sort", argc, argv, read_command_line,
                               [](const Options& options, const apps::Member& member) {
                                 print_setting(options, member);
                                 const Outcome outcome = run(options, member);
                                 print_outcome(options, outcome, member);
                                 return outcome.correct() ? 0 : 1;
                               });
}
