// What it costs to be an MPI process: init.

#include <array>

#include "common/resident.h"
#include "suite/benchmarks/benchmark.hpp"
#include "suite/job/started.hpp"

namespace isthmus::bench {
namespace {

// Each rank is one sample: what MPI_Init took in it, and what it holds in memory once it has met all others.
void init(const Job& job, std::size_t) {
  const bench_resident now = bench_resident_now();
  const std::array<double, 4> mine{seconds_in_init(), static_cast<double>(now.rss),
                                   static_cast<double>(now.pss), static_cast<double>(now.peak)};
  std::vector<double> all(mine.size() * static_cast<std::size_t>(job.ranks()));
  call(MPI_Gather(mine.data(), 4, MPI_DOUBLE, all.data(), 4, MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Gather");
  if (job.rank() != 0) return;
  Series series;
  std::array<double, 4> sums{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    sums[i % 4] += all[i];
    if (i % 4 == 0) series.seconds.push_back(all[i]);
  }
  series.operations = job.ranks();
  job.report(0, series,
             {.quantity = Quantity::milliseconds,
              .extras = {{"Rss (KiB)", sums[1] / job.ranks()},
                         {"Pss (KiB)", sums[2] / job.ranks()},
                         {"Peak (KiB)", sums[3] / job.ranks()}}});
}

}  // namespace

std::vector<Benchmark> start_benchmarks() {
  return {{"init",
           "start",
           "MPI_Init in each rank, and the mean of what a rank then holds in memory",
           Ranks::any,
           0,
           1,
           init,
           {}}};
}

}  // namespace isthmus::bench
