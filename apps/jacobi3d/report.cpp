#include "report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>

#include "common/library.hpp"
#include "common/statistics.hpp"

namespace jacobi {
namespace {

const char* way_of(HaloKind halo, bool gpu) {
  switch (halo) {
    case HaloKind::datatype:
      return gpu ? "as derived datatypes, from GPU to GPU" : "as derived datatypes";
    case HaloKind::pack:
      return gpu ? "packed, from GPU to GPU" : "packed";
    case HaloKind::staged:
      return "packed, by way of the hosts";
  }
  return "?";
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::string bytes(double count) {
  std::array<char, 32> text{};
  if (count < 1024) {
    std::snprintf(text.data(), text.size(), "%.0f B", count);
  } else if (count < 1024 * 1024) {
    std::snprintf(text.data(), text.size(), "%.1f KiB", count / 1024);
  } else {
    std::snprintf(text.data(), text.size(), "%.1f MiB", count / (1024 * 1024));
  }
  return text.data();
}

// The largest face that a block sends, or 0 if it has no neighbour.
double largest_face(const Block& block) {
  double largest = 0;
  for (int axis = 0; axis < 3; ++axis) {
    if (block.grid[axis] == 1) continue;
    double points = 1;
    for (int other = 0; other < 3; ++other)
      points *= other == axis ? 1 : block.size[other];
    largest = std::max(largest, points * sizeof(double));
  }
  return largest;
}

}  // namespace

void print_setting(const Options& options, const Block& block, MPI_Comm comm) {
  int rank = 0;
  int processes = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &processes);
  if (rank != 0) return;
  const auto [gx, gy, gz] = block.grid;
  const auto [sx, sy, sz] = block.size;
  std::printf("jacobi3d: -Laplace(u) = f on the unit cube, %d^3 points, %s\n", options.n,
              options.method == Method::jacobi ? "plain Jacobi" : "Jacobi with Chebyshev weights");
  std::printf("  library      %s\n", apps::library().c_str());
  std::printf("  processes    %d as %d x %d x %d, blocks of %d x %d x %d points\n", processes, gx, gy, gz, sx,
              sy, sz);
  if (processes > 1) {
    std::printf("  halo         faces up to %s, %s\n", bytes(largest_face(block)).c_str(),
                way_of(options.halo, options.gpu));
  }
  std::fflush(stdout);
}

void print_result(const Options& options, const Solution& solution, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  // The slowest process's median sets the pace; shares are of all processes' time. Where iterations are
  // enqueued, one in some waits for all of them: the mean.
  const bool enqueued = options.form != apps::gpu::Form::sync;
  const auto iterations = static_cast<double>(solution.timing.iteration.size());
  const std::array<double, 2> mine{
      enqueued ? sum(solution.timing.iteration) / iterations : apps::median(solution.timing.iteration),
      apps::median(solution.timing.halo)};
  std::array<double, 2> slowest{};
  MPI_Allreduce(mine.data(), slowest.data(), 2, MPI_DOUBLE, MPI_MAX, comm);
  const auto [pace, exchange] = slowest;
  const std::array<double, 3> spent{sum(solution.timing.iteration), sum(solution.timing.halo),
                                    sum(solution.timing.residual)};
  std::array<double, 3> all{};
  MPI_Allreduce(spent.data(), all.data(), 3, MPI_DOUBLE, MPI_SUM, comm);
  if (rank != 0) return;

  const double cells = std::pow(static_cast<double>(options.n), 3);
  const char* verdict = solution.converged       ? "converged"
                        : options.tolerance == 0 ? "stopped"
                                                 : "NOT CONVERGED";
  std::printf("  %-12s after %d iterations, residual %.3e", verdict, solution.iterations, solution.residual);
  if (options.tolerance > 0) std::printf(" (tolerance %.1e)", options.tolerance);
  std::printf("\n");
  if (const double rate = measured_rate(solution); rate > 0) {
    std::printf("  contraction  %.5f an iteration, in theory %.5f\n", std::exp(-rate),
                std::exp(-solution.theoretical_rate));
  }
  const char* sound = solution.converged ? "correct" : "within the bound";
  std::printf("  error        %.9e against the analytic solution, allowed %.3e: %s\n", solution.error,
              solution.bound, solution.within_bound() ? sound : "WRONG");
  std::printf("  time         %.4f ms an iteration (%s), %.2f s in all\n", 1e3 * pace,
              enqueued ? "mean" : "median", spent[0]);
  if (options.form == apps::gpu::Form::kernel)
    std::printf("  halo         within the kernel; allreduce %.1f %%\n", 100 * all[2] / all[0]);
  else if (enqueued)
    std::printf("  halo         %.1f us to enqueue one (median); allreduce %.1f %%\n", 1e6 * exchange,
                100 * all[2] / all[0]);
  else
    std::printf("  halo         %.1f %% of the time, %.1f us an exchange (median); allreduce %.1f %%\n",
                100 * all[1] / all[0], 1e6 * exchange, 100 * all[2] / all[0]);
  std::printf("  speed        %.1f million points a second\n", 1e-6 * cells / pace);
  std::fflush(stdout);
}

bool check_convergence(const Problem& fine, const Solution& solution, const Problem& coarse,
                       const Solution& coarse_solution, bool speaks) {
  const double order = std::log(coarse_solution.error / solution.error) / std::log(coarse.h() / fine.h());
  const bool second_order = order > 1.8 && order < 2.3;
  const double rate = measured_rate(solution);
  // Before the asymptotic phase Chebyshev's residual falls a little slower or faster than its limit.
  const bool contracts = rate == 0 || rate > 0.8 * solution.theoretical_rate;
  if (speaks) {
    std::printf("  check        order of the error %.2f (error %.3e with n = %d), expected 2: %s\n", order,
                coarse_solution.error, coarse.n, second_order ? "correct" : "WRONG");
    std::printf("  check        the residual falls at %.2f of the theoretical rate: %s\n",
                rate / solution.theoretical_rate, contracts ? "correct" : "WRONG");
    std::fflush(stdout);
  }
  return second_order && contracts;
}

}  // namespace jacobi
