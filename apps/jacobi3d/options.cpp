#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "survivor.hpp"

namespace jacobi {
namespace {

std::string text_of(const Triple& grid) {
  return std::to_string(grid[0]) + "x" + std::to_string(grid[1]) + "x" + std::to_string(grid[2]);
}

std::optional<Triple> parse_grid(const std::string& text) {
  Triple grid{};
  int used = 0;
  if (std::sscanf(text.c_str(), "%6dx%6dx%6d%n", &grid[0], &grid[1], &grid[2], &used) != 3) return {};
  const bool positive = std::ranges::all_of(grid, [](int extent) { return extent > 0; });
  return positive && static_cast<std::size_t>(used) == text.size() ? std::optional(grid) : std::nullopt;
}

// What the single options cannot know of each other; empty if all is well. Settles the grid.
std::string reconcile(Options& options, const std::string& grid_text, int processes) {
  if (options.how.compares() && (!options.how.on_gpu() || options.halo != HaloKind::pack))
    return "--form " + name_of(options.how.forms.back()) + " needs --gpu and --halo pack";
  if (options.halo == HaloKind::staged && !options.how.on_gpu()) return "--halo staged needs --gpu";
  if (options.survive &&
      (options.how.on_gpu() || options.check || options.output.json || options.halo != HaloKind::datatype))
    return "--survive goes with none of --gpu, --check, --halo and --json";
  if (options.survive && !can_survive())
    return "--survive needs an MPI with user-level failure mitigation (MPIX_Comm_shrink)";
  if (options.tolerance == 0 && options.iterations == 0) {
    return "--tolerance 0 never ends by itself: say how many --iterations";
  }
  if (!grid_text.empty()) {
    options.grid = parse_grid(grid_text);
    if (!options.grid) return "--grid " + grid_text + ": expected three numbers of processes, as in 2x2x4";
    const Triple& grid = *options.grid;
    const long product = static_cast<long>(grid[0]) * grid[1] * grid[2];
    if (product != processes) {
      return "--grid " + grid_text + " is for " + std::to_string(product) + " processes, but there are " +
             std::to_string(processes);
    }
  } else {
    options.grid = choose_grid(processes, options.n);
    if (!options.grid) {
      return "-n " + std::to_string(options.n) + ": there is no grid of " + std::to_string(processes) +
             " processes with at most " + std::to_string(options.n) +
             " along each axis; take a larger -n or other processes";
    }
  }
  const int longest = std::ranges::max(*options.grid);
  const int coarsest = options.check ? options.n / 2 : options.n;
  if (longest > coarsest) {
    return "-n " + std::to_string(options.n) + " is too small for the process grid " +
           text_of(*options.grid) +
           (options.check ? ": with --check each process needs two points along each axis"
                          : ": each process needs a point along each axis");
  }
  return {};
}

}  // namespace

std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int processes) {
  Options options;
  std::string grid_text;
  CLI::App app(
      "Solves -Laplace(u) = f on the unit cube by Jacobi iterations, in parallel, and holds the answer "
      "against the analytic "
      "solution.\nExit status: 0 correct, 1 not converged or wrong, 2 bad arguments.",
      "jacobi3d");
  app.add_option("-n,--size", options.n, "Points along each edge, without the boundary (128)")
      ->check(CLI::Range(2, 20000))
      ->option_text("N");
  app.add_option("--iterations", options.iterations,
                 "Stop after so many (otherwise after twice what theory says the tolerance takes)")
      ->check(CLI::Range(1, 1'000'000'000))
      ->option_text("N");
  app.add_option("--tolerance", options.tolerance,
                 "Stop when max|residual| / max|f| is at most this (1e-6); 0: always do all --iterations")
      ->check(CLI::Range(0.0, 1.0))
      ->option_text("X");
  app.add_option("--residual-every", options.residual_every,
                 "Iterations from one residual (an allreduce) to the next (10)")
      ->check(CLI::Range(1, 1'000'000))
      ->option_text("N");
  apps::add_choice<Method>(
      app, "--method", options.method, {{"jacobi", Method::jacobi}, {"chebyshev", Method::chebyshev}},
      "jacobi: of the order of n^2 iterations; chebyshev: the same with Chebyshev's weights, "
      "of the order of n "
      "(default)");
  using apps::gpu::Form;
  apps::gpu::add_form_options(app, options.how, {Form::sync, Form::stream, Form::kernel});
  apps::add_choice<HaloKind>(
      app, "--halo", options.halo,
      {{"datatype", HaloKind::datatype}, {"pack", HaloKind::pack}, {"staged", HaloKind::staged}},
      "How faces travel: datatype, described by derived types (default); pack, copied to buffers. With --gpu "
      "both "
      "are in its memory; staged: buffers that are copied to the host's. Forms but sync need pack");
  app.add_option("--grid", grid_text,
                 "Processes along x, y and z, as in 2x2x4 (otherwise those with the least surface)")
      ->option_text("AxBxC");
  app.add_flag("--check", options.check,
               "Solve on a grid half as fine too, and check the orders of convergence");
  app.add_flag("--survive", options.survive,
               "Go on without processes that die, from a checkpoint that each keeps of another "
               "(mpiexec --on-failure continue)");
  apps::add_output_options(app, options.output);
  if (auto refusal = apps::parse(app, argc, argv)) return *refusal;
  if (std::string problem = reconcile(options, grid_text, processes); !problem.empty()) {
    return apps::Refusal::bad(problem);
  }
  return options;
}

}  // namespace jacobi
