// jacobi3d: a 3-D Poisson solver in plain MPI. See --help.
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
  const Solution solution = solve(options, problem, block, member.comm);
  print_result(options, solution, member.comm);
  const bool correct = solution.within_bound() && (solution.converged || options.tolerance == 0);
  if (!options.check) return correct ? 0 : 1;

  const Problem coarse{options.n / 2};
  const Solution coarse_solution =
      solve(options, coarse, block_of(member.rank, *options.grid, coarse.n), member.comm);
  const bool converges = check_convergence(problem, solution, coarse, coarse_solution, member.speaks());
  return converges && coarse_solution.within_bound() && correct ? 0 : 1;
}

}  // namespace
}  // namespace jacobi

int main(int argc, char** argv) {
  return apps::run_application("jacobi3d", argc, argv, jacobi::read_command_line, jacobi::run);
}
