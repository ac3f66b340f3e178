// integer_sort: the integer sort of the NAS Parallel Benchmarks in plain MPI. See --help.
#include <mpi.h>

#include "benchmark.hpp"
#include "common/session.hpp"
#include "options.hpp"
#include "report.hpp"

namespace {

int run_here(int argc, char** argv) {
  using namespace integer_sort;
  const apps::Member member(MPI_COMM_WORLD);
  const auto line = read_command_line(argc, argv);
  if (const auto* refusal = std::get_if<apps::Refusal>(&line)) {
    return apps::refuse("integer_sort", *refusal, member);
  }
  const Options& options = std::get<Options>(line);
  print_setting(options, member);
  const Outcome outcome = run(options, member);
  print_outcome(options, outcome, member);
  return outcome.correct() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return apps::run_with_mpi("integer_sort", argc, argv, run_here);
}
