// The iteration and its measurements.
#pragma once

#include <mpi.h>

#include <utility>
#include <vector>

#include "decomposition.hpp"
#include "options.hpp"
#include "problem.hpp"

namespace jacobi {

// Where the time of this process went: one entry an iteration, in seconds.
struct Timing {
  std::vector<double> iteration;  // all of it
  std::vector<double> halo;       // exchange of the faces
  std::vector<double> residual;   // allreduce; 0 in most iterations
  // Of an iteration that leaves the exchange out, the mean: in forms whose host does not wait for it. Else 0.
  double without_exchange = 0;
};

struct Solution {
  bool converged = false;
  int iterations = 0;
  double residual = 0;                            // max norm, scaled by max|f|
  double error = 0;                               // max |u_h - u|
  double bound = 0;                               // what the error may be at most: Problem::error_bound
  double theoretical_rate = 0;                    // fall of ln(residual) per iteration, asymptotic
  std::vector<std::pair<int, double>> residuals;  // (iteration, residual)
  std::vector<double> values;                     // this process's points, where forms are compared
  Timing timing;

  // Never true for a NaN.
  [[nodiscard]] bool within_bound() const { return error <= bound; }
};

// Collective. Results but for `timing` and `values` are the same on all processes, and the same bits for any
// number of them. Tools see the iterations of the synchronous form between two calls of MPI_Pcontrol, all but
// the first, which does what is done once.
[[nodiscard]] Solution solve(const Options& options, apps::gpu::Form form, const Problem& problem,
                             const Block& block, MPI_Comm comm);

// The fall of ln(residual) per iteration, over the second half of the history; 0 if that is too short to
// tell.
[[nodiscard]] double measured_rate(const Solution& solution);

}  // namespace jacobi
