// jacobi3d: a 3-D Poisson solver in plain MPI, on GPUs in several forms of communication. See --help.
#include <algorithm>
#include <utility>
#include <vector>

#include "common/session.hpp"
#include "decomposition.hpp"
#include "options.hpp"
#include "problem.hpp"
#include "report.hpp"
#include "solver.hpp"
#include "survivor.hpp"

namespace jacobi {
namespace {

int run(const Options& options, const apps::Member& member) {
  const Problem problem{options.n};
  if (options.survive) return solve_surviving(options, problem, member.comm);
  const Block block = block_of(member.rank, *options.grid, options.n);
  print_setting(options, block, member.comm);
  std::vector<Outcome> outcomes;
  std::vector<double> sync_values;
  for (const apps::gpu::Form form : options.how.all()) {
    Solution solution = solve(options, form, problem, block, member.comm);
    Outcome outcome = outcome_of(options, form, solution, member.comm);
    if (outcomes.empty())
      sync_values = std::move(solution.values);
    else
      outcome.same_bits = apps::on_all(solution.values == sync_values, member.comm);
    if (options.check) {
      const Problem coarse{options.n / 2};
      outcome.convergence = check_convergence(
          problem, solution, coarse,
          solve(options, form, coarse, block_of(member.rank, *options.grid, coarse.n), member.comm));
    }
    outcomes.push_back(outcome);
  }
  print_outcomes(options, outcomes, member);
  return std::ranges::all_of(outcomes, &Outcome::correct) ? 0 : 1;
}

}  // namespace
}  // namespace jacobi

int main(int argc, char** argv) {
  return apps::run_application("jacobi3d", argc, argv, jacobi::read_command_line, jacobi::run);
}
