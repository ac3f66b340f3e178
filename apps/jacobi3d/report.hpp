// What is printed before and after the solution.
#pragma once

#include <mpi.h>

#include <optional>
#include <vector>

#include "common/gpu/form.hpp"
#include "common/member.hpp"
#include "decomposition.hpp"
#include "options.hpp"
#include "problem.hpp"
#include "solver.hpp"

namespace jacobi {

// What a grid half as fine tells: the error must fall with the square of the spacing, and the residual as
// fast as theory says.
struct Convergence {
  double order = 0;
  double rate = 0;  // of the theoretical one; 0: too few iterations to tell
  int coarse_points = 0;
  double coarse_error = 0;
  bool coarse_within_bound = false;

  [[nodiscard]] bool is_second_order() const { return order > 1.8 && order < 2.3; }
  // Before the asymptotic phase Chebyshev's residual falls a little slower or faster than its limit.
  [[nodiscard]] bool contracts() const { return rate == 0 || rate > 0.8; }
  [[nodiscard]] bool correct() const { return is_second_order() && contracts() && coarse_within_bound; }
};

// One form's result; the same on all processes, but for `seconds`.
struct Outcome {
  apps::gpu::Form form = apps::gpu::Form::sync;
  double step_seconds = 0;      // of an iteration, the mean of the slowest process
  double median_seconds = 0;    // its median
  double exchange_seconds = 0;  // of a call of Stepper::exchange, the median of the slowest process
  double seconds = 0;           // of all iterations, of this process
  // Of the time of all processes. Where the host does not wait for the exchange: by how much iterations are
  // faster that leave it out.
  double halo_share = 0;
  double allreduce_share = 0;
  int iterations = 0;
  bool converged = false;
  bool finished = false;  // converged, or it was not to stop by itself
  double residual = 0, error = 0, bound = 0;
  double measured_rate = 0, theoretical_rate = 0;
  bool same_bits = true;  // all points as in the synchronous form
  std::optional<Convergence> convergence;

  [[nodiscard]] bool correct() const {
    return finished && error <= bound && same_bits && (!convergence || convergence->correct());
  }
};

// Collective; rank 0 prints.
void print_setting(const Options& options, const Block& block, MPI_Comm comm);
// Collective.
[[nodiscard]] Outcome outcome_of(const Options& options, apps::gpu::Form form, const Solution& solution,
                                 MPI_Comm comm);
void print_outcomes(const Options& options, const std::vector<Outcome>& outcomes, const apps::Member& member);

// Holds a solution against one on a grid half as fine.
[[nodiscard]] Convergence check_convergence(const Problem& fine, const Solution& solution,
                                            const Problem& coarse, const Solution& coarse_solution);

}  // namespace jacobi
