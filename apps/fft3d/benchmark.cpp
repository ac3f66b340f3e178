#include "benchmark.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "common/progress.hpp"
#include "common/statistics.hpp"
#include "communicators.hpp"
#include "transform.hpp"
#include "waves.hpp"

namespace fft {
namespace {

double log2_of(const Triple& points) {
  return std::log2(points[0]) + std::log2(points[1]) + std::log2(points[2]);
}

// Rounding errors of a transform grow with the logarithm of the number of points (J. Gentleman, G. Sande,
// 1966). Boxes of 1 to 2^24 points, with primes as edges too, came to at most 0.2 of this.
double rounding(const Triple& points) {
  return std::numeric_limits<double>::epsilon() * (1 + log2_of(points));
}

double global_max(double value, MPI_Comm comm) {
  double result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, comm);
  return result;
}

Times mean_of(const Times& mine, int iterations, const apps::Member& member) {
  const std::array<double, 3> spent{mine.transforms, mine.copies, mine.exchange};
  std::array<double, 3> all{};
  MPI_Allreduce(spent.data(), all.data(), static_cast<int>(spent.size()), MPI_DOUBLE, MPI_SUM, member.comm);
  const double shares = static_cast<double>(member.size) * iterations;
  return {all[0] / shares, all[1] / shares, all[2] / shares};
}

Pencils pencils_here(const Options& options, const Communicators& communicators) {
  const apps::Member row(communicators.row());
  const apps::Member column(communicators.column());
  return pencils_of(row.rank, column.rank, options.grid, options.points);
}

// The first shares are the largest.
std::array<double, 2> largest_parts(const Options& options) {
  const Pencils largest = pencils_of(0, 0, options.grid, options.points);
  const double of_row = static_cast<double>(largest.x.size) * largest.y_of_x.size * largest.z.size;
  const double of_column = static_cast<double>(largest.x.size) * largest.y_of_z.size * largest.z.size;
  return {of_row * sizeof(Complex), of_column * sizeof(Complex)};
}

}  // namespace

double operations(const Triple& points) {
  return 5.0 * points[0] * points[1] * points[2] * log2_of(points);
}

Outcome run(const Options& options, const apps::Member& member) {
  const apps::ProgressStyle style = options.output.json ? apps::ProgressStyle::none : options.output.progress;
  apps::Progress progress(style, "fft3d", member.speaks(), options.iterations);
  const Communicators communicators(options.grid, member.comm);
  const Pencils pencils = pencils_here(options, communicators);
  Transform transform(pencils, communicators, options.exchange, options.pieces, options.planning);
  Outcome outcome;
  outcome.wave_bound = rounding(options.points);
  outcome.trip_bound = 2 * options.iterations * rounding(options.points);
  outcome.parts = largest_parts(options);

  const Waves waves(options.points);
  waves.fill(pencils, transform.points().data());
  transform.forward();
  outcome.wave_error = global_max(waves.error(pencils, transform.modes()), member.comm);

  fill_with_noise(pencils, transform.points().data());
  transform.forget_times();
  std::vector<double> seconds;
  MPI_Barrier(member.comm);
  const double begin = MPI_Wtime();
  double last = begin;
  for (int iteration = 1; iteration <= options.iterations; ++iteration) {
    transform.forward();
    transform.backward();
    const double now = MPI_Wtime();
    seconds.push_back(now - last);
    progress.update(iteration, now - begin);
    last = MPI_Wtime();  // showing is not transforming
  }
  progress.finish();
  outcome.seconds = global_max(apps::median(seconds), member.comm);
  outcome.mean = mean_of(transform.times(), options.iterations, member);
  outcome.trip_error = global_max(distance_from_noise(pencils, transform.points().data()), member.comm);
  return outcome;
}

}  // namespace fft
