#include "report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "common/gpu/form_report.hpp"
#include "common/library.hpp"
#include "common/statistics.hpp"

namespace jacobi {
namespace {

using apps::gpu::Form;

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

void print_json(const Options& options, const std::vector<Outcome>& outcomes, int processes) {
  apps::gpu::print_json({{"program", "jacobi3d"},
                         {"library", apps::library()},
                         {"processes", processes},
                         {"points", options.n},
                         {"grid", *options.grid},
                         {"residual_every", options.residual_every}},
                        outcomes, [](const Outcome& outcome) {
                          nlohmann::ordered_json form{{"iterations", outcome.iterations},
                                                      {"residual", outcome.residual},
                                                      {"error", outcome.error},
                                                      {"bound", outcome.bound},
                                                      {"halo_percent", 100 * outcome.halo_share},
                                                      {"allreduce_percent", 100 * outcome.allreduce_share},
                                                      {"same_bits", outcome.same_bits}};
                          if (outcome.convergence) {
                            form["order"] = outcome.convergence->order;
                            form["rate"] = outcome.convergence->rate;
                          }
                          return form;
                        });
}

void print_halo(const Outcome& outcome) {
  std::printf("  halo         %.1f %% of the time", 100 * outcome.halo_share);
  if (outcome.form == Form::sync)
    std::printf(", %.1f us an exchange (median)", 1e6 * outcome.exchange_seconds);
  else
    std::printf(", by which iterations without it are faster");
  if (outcome.form == Form::stream)
    std::printf(", %.1f us to enqueue one (median)", 1e6 * outcome.exchange_seconds);
  std::printf("; allreduce %.1f %%\n", 100 * outcome.allreduce_share);
}

void print_convergence(const Convergence& convergence) {
  std::printf("  check        order of the error %.2f (error %.3e with n = %d), expected 2: %s\n",
              convergence.order, convergence.coarse_error, convergence.coarse_points,
              convergence.is_second_order() && convergence.coarse_within_bound ? "correct" : "WRONG");
  std::printf("  check        the residual falls at %.2f of the theoretical rate: %s\n", convergence.rate,
              convergence.contracts() ? "correct" : "WRONG");
}

// `compares`: there are several forms, which are compared by their means.
void print_outcome(const Options& options, const Outcome& outcome, const std::vector<Outcome>& outcomes) {
  const bool compares = options.how.compares();
  if (compares) std::printf("  form         %s\n", name_of(outcome.form).c_str());
  const char* verdict = outcome.converged        ? "converged"
                        : options.tolerance == 0 ? "stopped"
                                                 : "NOT CONVERGED";
  std::printf("  %-12s after %d iterations, residual %.3e", verdict, outcome.iterations, outcome.residual);
  if (options.tolerance > 0) std::printf(" (tolerance %.1e)", options.tolerance);
  std::printf("\n");
  if (outcome.measured_rate > 0) {
    std::printf("  contraction  %.5f an iteration, in theory %.5f\n", std::exp(-outcome.measured_rate),
                std::exp(-outcome.theoretical_rate));
  }
  const char* sound = outcome.converged ? "correct" : "within the bound";
  std::printf("  error        %.9e against the analytic solution, allowed %.3e: %s\n", outcome.error,
              outcome.bound, outcome.error <= outcome.bound ? sound : "WRONG");
  if (compares) apps::gpu::print_same_bits(outcome);
  const double pace = compares ? outcome.step_seconds : outcome.median_seconds;
  std::printf("  time         %.4f ms an iteration (%s), %.2f s in all", 1e3 * pace,
              compares ? "mean" : "median", outcome.seconds);
  apps::gpu::print_gain(outcome, outcomes);
  print_halo(outcome);
  std::printf("  speed        %.1f million points a second\n",
              1e-6 * std::pow(static_cast<double>(options.n), 3) / pace);
  if (outcome.convergence) print_convergence(*outcome.convergence);
}

}  // namespace

void print_setting(const Options& options, const Block& block, MPI_Comm comm) {
  int rank = 0;
  int processes = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &processes);
  if (rank != 0 || options.output.json) return;
  const auto [gx, gy, gz] = block.grid;
  const auto [sx, sy, sz] = block.size;
  std::printf("jacobi3d: -Laplace(u) = f on the unit cube, %d^3 points, %s\n", options.n,
              options.method == Method::jacobi ? "plain Jacobi" : "Jacobi with Chebyshev weights");
  std::printf("  library      %s\n", apps::library().c_str());
  std::printf("  processes    %d as %d x %d x %d, blocks of %d x %d x %d points\n", processes, gx, gy, gz, sx,
              sy, sz);
  if (processes > 1) {
    std::printf("  halo         faces up to %s, %s\n", bytes(largest_face(block)).c_str(),
                way_of(options.halo, options.how.on_gpu()));
  }
  std::fflush(stdout);
}

Outcome outcome_of(const Options& options, Form form, const Solution& solution, MPI_Comm comm) {
  const Timing& timing = solution.timing;
  // Where iterations are enqueued, one in some waits for all of them, so forms are compared by means, without
  // the first iteration, in which some things are done once. The slowest process sets the pace; shares are of
  // all processes' time.
  std::vector<double> steps = timing.iteration;
  if (steps.size() > 1) steps.erase(steps.begin());
  const double mean = steps.empty() ? 0 : sum(steps) / static_cast<double>(steps.size());
  const std::array<double, 3> mine{mean, apps::median(timing.iteration), apps::median(timing.halo)};
  std::array<double, 3> slowest{};
  MPI_Allreduce(mine.data(), slowest.data(), 3, MPI_DOUBLE, MPI_MAX, comm);
  const std::array<double, 5> spent{sum(timing.iteration), sum(timing.halo), sum(timing.residual), mean,
                                    timing.without_exchange};
  std::array<double, 5> all{};
  MPI_Allreduce(spent.data(), all.data(), 5, MPI_DOUBLE, MPI_SUM, comm);

  Outcome outcome;
  outcome.form = form;
  outcome.step_seconds = slowest[0];
  outcome.median_seconds = slowest[1];
  outcome.exchange_seconds = slowest[2];
  outcome.seconds = spent[0];
  outcome.halo_share = form == Form::sync ? all[1] / all[0] : std::max(0.0, 1 - all[4] / all[3]);
  outcome.allreduce_share = all[2] / all[0];
  outcome.iterations = solution.iterations;
  outcome.converged = solution.converged;
  outcome.finished = solution.converged || options.tolerance == 0;
  outcome.residual = solution.residual;
  outcome.error = solution.error;
  outcome.bound = solution.bound;
  outcome.measured_rate = measured_rate(solution);
  outcome.theoretical_rate = solution.theoretical_rate;
  return outcome;
}

void print_outcomes(const Options& options, const std::vector<Outcome>& outcomes,
                    const apps::Member& member) {
  if (!member.speaks()) return;
  if (options.output.json) return print_json(options, outcomes, member.size);
  for (const Outcome& outcome : outcomes)
    print_outcome(options, outcome, outcomes);
  std::fflush(stdout);
}

Convergence check_convergence(const Problem& fine, const Solution& solution, const Problem& coarse,
                              const Solution& coarse_solution) {
  Convergence convergence;
  convergence.order = std::log(coarse_solution.error / solution.error) / std::log(coarse.h() / fine.h());
  convergence.rate = measured_rate(solution) / solution.theoretical_rate;
  convergence.coarse_points = coarse.n;
  convergence.coarse_error = coarse_solution.error;
  convergence.coarse_within_bound = coarse_solution.within_bound();
  return convergence;
}

}  // namespace jacobi
