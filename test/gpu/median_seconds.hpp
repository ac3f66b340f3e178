#pragma once

#include <mpi.h>

#include <algorithm>
#include <vector>

namespace isthmus::testing_gpu {

/// Of one `body()`: the median of `batches` of `rounds` calls each, after a batch that warms up. Collective.
template <class Body>
double median_seconds(int batches, int rounds, Body body) {
  std::vector<double> times;
  for (int batch = 0; batch < batches + 1; ++batch) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < rounds; ++i)
      body();
    if (batch > 0) times.push_back((MPI_Wtime() - begin) / rounds);
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace isthmus::testing_gpu
