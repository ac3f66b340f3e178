#include "options.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>

namespace fft {
namespace {

bool ends_at(const std::string& text, int used) {
  return static_cast<std::size_t>(used) == text.size();
}

std::optional<Triple> parse_size(const std::string& text) {
  Triple points{};
  int used = 0;
  if (std::sscanf(text.c_str(), "%6d%n", points.data(), &used) == 1 && ends_at(text, used)) {
    points = {points[0], points[0], points[0]};
  } else if (std::sscanf(text.c_str(), "%6dx%6dx%6d%n", &points[0], &points[1], &points[2], &used) != 3 ||
             !ends_at(text, used)) {
    return {};
  }
  return std::ranges::all_of(points, [](int n) { return n > 0; }) ? std::optional(points) : std::nullopt;
}

std::optional<Grid> parse_grid(const std::string& text) {
  Grid grid{};
  int used = 0;
  if (std::sscanf(text.c_str(), "%6dx%6d%n", &grid.row, &grid.column, &used) != 2 || !ends_at(text, used))
    return {};
  return grid.row > 0 && grid.column > 0 ? std::optional(grid) : std::nullopt;
}

// Empty if all is well. Settles the grid.
std::string settle_grid(Options& options, const std::string& grid_text, const std::string& size_text,
                        int processes) {
  const Triple& points = options.points;
  const std::string size = "--size " + size_text;
  if (grid_text.empty()) {
    const auto grid = choose_grid(processes, points);
    if (!grid)
      return size + " is too small for " + std::to_string(processes) +
             " processes: there is no grid of them in which each gets a pencil";
    options.grid = *grid;
    return {};
  }
  const auto grid = parse_grid(grid_text);
  if (!grid) return "--grid " + grid_text + ": expected two numbers of processes, as in 2x4";
  if (const long product = static_cast<long>(grid->row) * grid->column; product != processes) {
    return "--grid " + grid_text + " is for " + std::to_string(product) + " processes, but there are " +
           std::to_string(processes);
  }
  if (!fits(*grid, points)) {
    return size + " is too small for --grid " + grid_text + ": rows can be of " +
           std::to_string(std::min(modes_along_x(points), points[1])) + " processes, columns of " +
           std::to_string(std::min(points[1], points[2]));
  }
  options.grid = *grid;
  return {};
}

// MPI's counts and FFTW's are ints.
bool too_large(const Options& options) {
  const Pencils pencils = pencils_of(0, 0, options.grid, options.points);  // the first shares are the largest
  // What alltoall sends, where all parts are as large as the largest.
  const double padded_row =
      static_cast<double>(pencils.x.size) * pencils.y_of_x.size * options.grid.row * pencils.z.size;
  const double padded_column =
      static_cast<double>(pencils.z.size) * pencils.y_of_z.size * options.grid.column * pencils.x.size;
  return std::max({std::ranges::max(pencils.sizes()), padded_row, padded_column}) >
         std::numeric_limits<int>::max();
}

}  // namespace

std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int processes) {
  Options options;
  std::string size_text = "128";
  std::string grid_text;
  CLI::App app(
      "Transforms real numbers on a box to Fourier space and back, in parallel, with pencils of points along "
      "x, y and z. The "
      "transform of some plane waves is held against the exact one, and noise must come back as it "
      "was.\nExit status: 0 correct, 1 "
      "wrong, 2 bad arguments.",
      "fft3d");
  app.add_option("-n,--size", size_text,
                 "Points along each edge of the box, as in 128 (default) or 256x128x100")
      ->option_text("N | AxBxC");
  app.add_option("--iterations", options.iterations, "How often there and back (10)")
      ->check(CLI::Range(1, 1'000'000))
      ->option_text("N");
  app.add_option("--grid", grid_text,
                 "Processes in each row, which exchange x and y, and in each column, which exchange y and z, "
                 "as in 2x4 (otherwise the "
                 "grid nearest to a square)")
      ->option_text("AxB");
  apps::add_choice<Exchange>(app, "--exchange", options.exchange,
                             {{"alltoallv", Exchange::alltoallv}, {"alltoall", Exchange::alltoall}},
                             "alltoallv (default), or alltoall with parts padded to the size of the largest");
  app.add_option(
         "--overlap", options.pieces,
         "Pieces of each transpose, of which some are on their way, by nonblocking exchanges, while others "
         "are transformed (1: none)")
      ->check(CLI::Range(1, 1024))
      ->option_text("PIECES");
  apps::add_choice<Planning>(
      app, "--plan", options.planning, {{"measure", Planning::measure}, {"estimate", Planning::estimate}},
      "How FFTW chooses its algorithm: measure (default) tries some, estimate does not");
  apps::add_output_options(app, options.output);
  if (auto refusal = apps::parse(app, argc, argv)) return *refusal;

  const auto points = parse_size(size_text);
  if (!points)
    return apps::Refusal::bad("--size " + size_text +
                              ": expected one number of points or three, as in 256x128x100");
  options.points = *points;
  if (std::string problem = settle_grid(options, grid_text, size_text, processes); !problem.empty()) {
    return apps::Refusal::bad(problem);
  }
  if (too_large(options)) {
    return apps::Refusal::bad("--size " + size_text + " is too large for " + std::to_string(processes) +
                              " processes: each can hold 2^31 numbers at most");
  }
  return options;
}

}  // namespace fft
