#include "report.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/library.hpp"

namespace fft {
namespace {

const char* name_of(Exchange exchange) {
  return exchange == Exchange::alltoall ? "alltoall" : "alltoallv";
}

double megaflops(const Options& options, const Outcome& outcome) {
  return 1e-6 * operations(options.points) / outcome.seconds;
}

void print_json(const Options& options, const Outcome& outcome, int processes) {
  const nlohmann::ordered_json json{
      {"program", "fft3d"},
      {"library", apps::library()},
      {"points", options.points},
      {"processes", processes},
      {"grid", {options.grid.row, options.grid.column}},
      {"exchange", name_of(options.exchange)},
      {"pieces", options.pieces},
      {"iterations", options.iterations},
      {"seconds_an_iteration", outcome.seconds},
      {"megaflops", megaflops(options, outcome)},
      {"seconds_mean",
       {{"transforms", outcome.mean.transforms},
        {"copies", outcome.mean.copies},
        {"exchange", outcome.mean.exchange}}},
      {"bytes_to_each", {{"row", outcome.parts[0]}, {"column", outcome.parts[1]}}},
      {"wave_error", outcome.wave_error},
      {"wave_bound", outcome.wave_bound},
      {"trip_error", outcome.trip_error},
      {"trip_bound", outcome.trip_bound},
      {"correct", outcome.correct()},
  };
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void print_text(const Options& options, const Outcome& outcome) {
  const Times& mean = outcome.mean;
  const double all = mean.transforms + mean.copies + mean.exchange;
  std::printf("  plane waves  error %.2e of the exact transform, allowed %.2e: %s\n", outcome.wave_error,
              outcome.wave_bound, outcome.waves_correct() ? "correct" : "WRONG");
  std::printf("  round trips  noise came back with an error of %.2e, allowed %.2e: %s\n", outcome.trip_error,
              outcome.trip_bound, outcome.trip_correct() ? "correct" : "WRONG");
  std::printf("  time         %.3f ms there and back (median of %d)\n", 1e3 * outcome.seconds,
              options.iterations);
  std::printf("  of that      computation %.1f %%, copies %.1f %%, communication %.1f %%\n",
              100 * mean.transforms / all, 100 * mean.copies / all, 100 * mean.exchange / all);
  std::printf("  speed        %.0f Mflop/s\n", megaflops(options, outcome));
}

}  // namespace

void print_setting(const Options& options, const apps::Member& member) {
  if (!member.speaks() || options.output.json) return;
  const auto [nx, ny, nz] = options.points;
  std::printf("fft3d: %d x %d x %d real numbers, to Fourier space and back\n", nx, ny, nz);
  std::printf("  library      %s\n", apps::library().c_str());
  std::printf("  processes    %d, %d in a row and %d in a column, %s\n", member.size, options.grid.row,
              options.grid.column, name_of(options.exchange));
  if (options.pieces > 1)
    std::printf("  overlap      transposes by %d pieces, each on its way while others are transformed\n",
                options.pieces);
  std::fflush(stdout);
}

void print_outcome(const Options& options, const Outcome& outcome, const apps::Member& member) {
  if (!member.speaks()) return;
  if (options.output.json) {
    print_json(options, outcome, member.size);
  } else {
    print_text(options, outcome);
  }
  std::fflush(stdout);
}

}  // namespace fft
