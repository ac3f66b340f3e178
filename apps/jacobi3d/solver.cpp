#include "solver.hpp"

#include <algorithm>
#include <cmath>

#include "field.hpp"
#include "method.hpp"
#include "progress.hpp"
#include "stepper.hpp"

namespace jacobi {
Solution solve(const Options& options, const Problem& problem, const Block& block, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  const Field source = scaled_source(problem, block);
  Field initial(block.size);
  set_boundary(initial, problem, block);
  const auto stepper = make_stepper(options, block, initial, source, comm);

  Solution solution;
  solution.theoretical_rate = theoretical_rate(options.method, problem.spectral_radius());
  const int limit = options.iterations > 0 ? options.iterations
                                           : default_limit(options, problem, solution.theoretical_rate);
  const double to_residual = 6 / (problem.h() * problem.h() * Problem::largest_source());
  Weights weights(options.method, problem.spectral_radius());
  Progress progress(options.progress, rank == 0, options.tolerance, limit, solution.theoretical_rate);

  MPI_Barrier(comm);
  const double begin = MPI_Wtime();
  double last = begin;
  for (int iteration = 0;; ++iteration) {
    stepper->exchange();
    const double exchanged = MPI_Wtime();
    const bool measure = iteration % options.residual_every == 0 || iteration == limit;
    double reducing = 0;
    if (measure) {
      const double change = stepper->sweep(weights.next(), true);
      reducing = MPI_Wtime();
      solution.residual = to_residual * global_max(change, comm);
    } else {
      stepper->sweep(weights.next(), false);
    }
    const double end = MPI_Wtime();
    solution.timing.iteration.push_back(end - last);
    solution.timing.halo.push_back(exchanged - last);
    solution.timing.residual.push_back(measure ? end - reducing : 0);
    last = end;
    if (measure) {
      solution.iterations = iteration;
      solution.residuals.emplace_back(iteration, solution.residual);
      solution.converged = solution.residual <= options.tolerance;
      if (solution.converged || iteration == limit || !std::isfinite(solution.residual)) break;
      progress.update(iteration, solution.residual, end - begin);
      last = MPI_Wtime();  // showing is not solving
    }
    stepper->swap();
  }
  progress.finish();

  solution.error = global_max(largest_error(stepper->values(), problem, block), comm);
  solution.bound = problem.error_bound(solution.residual * Problem::largest_source());
  return solution;
}

double measured_rate(const Solution& solution) {
  const auto& history = solution.residuals;
  if (history.size() < 4) return 0;
  const auto& [first, high] = history[history.size() / 2];
  const auto& [last, low] = history.back();
  return low > 0 && last > first ? std::log(high / low) / (last - first) : 0;
}

}  // namespace jacobi
