// multigrid: a geometric multigrid solver for GPUs in plain MPI, in several forms of communication. See
// --help.
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/session.hpp"
#include "common/statistics.hpp"
#include "options.hpp"
#include "problem.hpp"
#include "report.hpp"
#include "solver.hpp"

namespace multigrid {
namespace {

using apps::gpu::Engine;
using apps::gpu::Form;

// Of the residual, by a V-cycle.
constexpr double slowest_contraction = 0.3;
constexpr double rounding = 1e-13;

// NaN where one is.
double largest(const std::vector<double>& values, MPI_Comm comm) {
  double here = 0, sum = 0;
  for (const double value : values) {
    here = std::max(here, std::abs(value));
    sum += value;
  }
  if (std::isnan(sum)) here = INFINITY;
  double all = 0;
  MPI_Allreduce(&here, &all, 1, MPI_DOUBLE, MPI_MAX, comm);
  return all;
}

// The cells of the boxes, without the layers around them.
std::vector<double> inner(const Division& division, const std::vector<double>& values) {
  const auto n = static_cast<std::size_t>(division.n), side = n + 2;
  std::vector<double> cells;
  cells.reserve(values.size());
  for (std::size_t box = 0; box < values.size() / (side * side * side); ++box)
    for (std::size_t z = 1; z <= n; ++z)
      for (std::size_t y = 1; y <= n; ++y) {
        const auto row =
            values.begin() + static_cast<std::ptrdiff_t>(((box * side + z) * side + y) * side + 1);
        cells.insert(cells.end(), row, row + static_cast<std::ptrdiff_t>(n));
      }
  return cells;
}

class Comparison {
 public:
  Comparison(const Options& options, const apps::Member& member)
      : options_(options),
        member_(member),
        division_(divide(member.rank, member.size, options.boxes, options.box)),
        values_(Problem{options.alpha}.values(division_)),
        exact_(inner(division_, values_.u)),
        engine_(options.how.place, member.comm) {}

  int run() {
    std::vector<Outcome> outcomes;
    int levels = 0;
    long exchanges = 0;
    for (const Form form : options_.how.all()) {
      Solver solver(options_, division_, values_, engine_, form, member_.comm);
      levels = solver.level_count();
      exchanges = solver.exchanges_of_cycle();
      if (outcomes.empty()) print_setting(options_, division_, levels, exchanges, member_);
      outcomes.push_back(try_form(form, solver));
    }
    print_outcomes(options_, outcomes, levels, exchanges, member_);
    return std::ranges::all_of(outcomes, &Outcome::correct) ? 0 : 1;
  }

 private:
  Outcome try_form(Form form, Solver& solver) {
    Outcome outcome{.form = form};
    solver.solve(false);  // what is only done once
    const std::vector<double> answer = inner(division_, solver.answer());
    std::vector<double> seconds;
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      const double here = solver.solve(form == Form::sync);
      double slowest = 0;
      MPI_Allreduce(&here, &slowest, 1, MPI_DOUBLE, MPI_MAX, member_.comm);
      seconds.push_back(slowest / options_.cycles);
    }
    outcome.step_seconds = apps::median(seconds);
    outcome.steady = apps::on_all(inner(division_, solver.answer()) == answer, member_.comm);
    if (form == Form::sync) sync_answer_ = answer;
    outcome.same_bits = apps::on_all(answer == sync_answer_, member_.comm);
    judge(solver, answer, outcome);
    return outcome;
  }

  // The inverse of the operator is bounded in the maximum norm: -Laplace's by L^2/8 in a box whose shortest
  // edge is L (by the maximum principle with x (L - x) / 2), with alpha by less.
  void judge(Solver& solver, std::vector<double> answer, Outcome& outcome) const {
    for (std::size_t i = 0; i < answer.size(); ++i)
      answer[i] -= exact_[i];
    const double largest_u = largest(exact_, member_.comm);
    const double largest_f = largest(values_.f, member_.comm);
    const double residual = largest(inner(division_, solver.residual()), member_.comm);
    const double edge =
        Problem::h(division_) * std::min({division_.extent(0), division_.extent(1), division_.extent(2)});
    outcome.residual = residual / largest_f;
    const double cells = 1 / Problem::h(division_);
    outcome.allowed =
        std::max(std::pow(slowest_contraction, options_.cycles), 0.01 * rounding * cells * cells);
    outcome.error = largest(answer, member_.comm) / largest_u;
    // The stencil next to the boundary differs from that of the comparison function by h^2 at most.
    const double inverse_norm = edge * edge / 8 + Problem::h(division_) * Problem::h(division_);
    outcome.bound = inverse_norm * residual / largest_u + rounding * largest_f * edge * edge / largest_u;
  }

  const Options& options_;
  const apps::Member& member_;
  const Division division_;
  const Problem::Values values_;
  const std::vector<double> exact_;
  const Engine engine_;
  std::vector<double> sync_answer_;
};

int run(const Options& options, const apps::Member& member) {
  return Comparison(options, member).run();
}

}  // namespace
}  // namespace multigrid

int main(int argc, char** argv) {
  return apps::run_application("multigrid", argc, argv, multigrid::read_command_line, multigrid::run);
}
