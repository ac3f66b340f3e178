#include "solver.hpp"

#include <algorithm>
#include <cmath>

#include "field.hpp"
#include "method.hpp"
#include "progress.hpp"
#include "stepper.hpp"

namespace jacobi {
namespace {

using apps::gpu::Form;

std::vector<double> inner(const Field& field) {
  const auto [sx, sy, sz] = field.size();
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(sx) * static_cast<std::size_t>(sy) * static_cast<std::size_t>(sz));
  for (int z = 1; z <= sz; ++z)
    for (int y = 1; y <= sy; ++y)
      for (int x = 1; x <= sx; ++x)
        values.push_back(field.at(x, y, z));
  return values;
}

// Seconds of an iteration; the values are of no use behind it. The first one is not timed, as above.
double time_without_exchange(Stepper& stepper, const Options& options, int iterations, MPI_Comm comm) {
  constexpr int enough = 1000;
  const int last = std::min(iterations, std::max(enough, options.residual_every));
  stepper.leave_exchange_out();
  double begin = 0;
  for (int iteration = 0;; ++iteration) {
    const bool measure = iteration % options.residual_every == 0 || iteration == last;
    const double change = stepper.sweep(1, measure);
    if (measure) static_cast<void>(global_max(change, comm));
    stepper.swap();
    if (iteration == 0) begin = MPI_Wtime();
    if (iteration == last) break;
  }
  return last > 0 ? (MPI_Wtime() - begin) / last : 0;
}

}  // namespace

Solution solve(const Options& options, Form form, const Problem& problem, const Block& block, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  const Field source = scaled_source(problem, block);
  Field initial(block.size);
  set_boundary(initial, problem, block);
  const auto stepper = make_stepper(options, form, block, initial, source, comm);

  Solution solution;
  solution.theoretical_rate = theoretical_rate(options.method, problem.spectral_radius());
  const int limit = options.iterations > 0 ? options.iterations
                                           : default_limit(options, problem, solution.theoretical_rate);
  const double to_residual = 6 / (problem.h() * problem.h() * Problem::largest_source());
  Weights weights(options.method, problem.spectral_radius());
  const auto style = options.output.json ? apps::ProgressStyle::none : options.output.progress;
  Progress progress(style, rank == 0, options.tolerance, limit, solution.theoretical_rate);

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
      if (iteration == 0 && form == Form::sync) MPI_Pcontrol(1);
      last = MPI_Wtime();  // showing is not solving
    }
    stepper->swap();
  }
  if (form == Form::sync) MPI_Pcontrol(0);
  progress.finish();

  const Field& values = stepper->values();
  solution.error = global_max(largest_error(values, problem, block), comm);
  if (options.how.compares()) solution.values = inner(values);
  solution.bound = problem.error_bound(solution.residual * Problem::largest_source());
  if (form != Form::sync)
    solution.timing.without_exchange = time_without_exchange(*stepper, options, solution.iterations, comm);
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
