#include "solver.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "field.hpp"
#include "progress.hpp"
#include "stepper.hpp"

namespace jacobi {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The exact values on the cube's boundary, 0 inside.
void set_boundary(Field& field, const Problem& problem, const Block& block) {
  const auto [sx, sy, sz] = block.size;
  auto outside = [&](int global) { return global == 0 || global == problem.n + 1; };
  for (int z = 0; z <= sz + 1; ++z) {
    for (int y = 0; y <= sy + 1; ++y) {
      for (int x = 0; x <= sx + 1; ++x) {
        const Triple at{x + block.offset[0], y + block.offset[1], z + block.offset[2]};
        const bool boundary = outside(at[0]) || outside(at[1]) || outside(at[2]);
        field.at(x, y, z) = boundary ? problem.exact(at[0], at[1], at[2]) : 0;
      }
    }
  }
}

// h^2 f at the block's points.
Field scaled_source(const Problem& problem, const Block& block) {
  Field field(block.size);
  const double h2 = problem.h() * problem.h();
  for (int z = 1; z <= block.size[2]; ++z) {
    for (int y = 1; y <= block.size[1]; ++y) {
      for (int x = 1; x <= block.size[0]; ++x) {
        field.at(x, y, z) =
            h2 * problem.source(x + block.offset[0], y + block.offset[1], z + block.offset[2]);
      }
    }
  }
  return field;
}

double largest_error(const Field& field, const Problem& problem, const Block& block) {
  double largest = 0;
  double sum = 0;
  for (int z = 1; z <= block.size[2]; ++z) {
    for (int y = 1; y <= block.size[1]; ++y) {
      for (int x = 1; x <= block.size[0]; ++x) {
        const double exact = problem.exact(x + block.offset[0], y + block.offset[1], z + block.offset[2]);
        const double error = std::abs(field.at(x, y, z) - exact);
        largest = std::max(largest, error);
        sum += error;
      }
    }
  }
  return std::isfinite(sum) ? largest : infinity;
}

double global_max(double value, MPI_Comm comm) {
  double result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, comm);
  return result;
}

// The weights of the Chebyshev semi-iteration for eigenvalues in [-radius, radius] (Varga, Matrix Iterative
// Analysis, 5.1); 1 throughout for plain Jacobi.
class Weights {
 public:
  Weights(Method method, double radius) : square_(method == Method::jacobi ? 0 : radius * radius) {}

  double next() {
    if (step_ == 1) weight_ = 2 / (2 - square_);
    if (step_ > 1) weight_ = 1 / (1 - square_ * weight_ / 4);
    ++step_;
    return weight_;
  }

 private:
  double square_;
  double weight_ = 1;
  int step_ = 0;
};

// How much ln(error) falls per iteration, asymptotically.
double theoretical_rate(Method method, double radius) {
  if (method == Method::jacobi) return -std::log(radius);
  return -std::log(radius / (1 + std::sqrt(1 - radius * radius)));
}

// Twice what the tolerance takes when the residual begins at the boundary's jump, of the order of 6/h^2.
int default_limit(const Options& options, const Problem& problem, double rate) {
  const double fall = std::log(6 / (problem.h() * problem.h() * options.tolerance));
  return static_cast<int>(std::min(1e9, std::ceil(2 * fall / rate)));
}

}  // namespace

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
