#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

/// What the programs that `isthmus tune` measures with have in common.
namespace isthmus::pair {

/// How often is measured: "BATCHES" or "BATCHES+FIRST".
struct Effort {
  int batches = 0;
  int first = 0;  ///< messages or calls whose mean is told too

  explicit Effort(const char* text) : batches(std::atoi(text)) {
    if (const char* plus = std::strchr(text, '+')) first = std::atoi(plus + 1);
  }
};

/// The sizes that the arguments from `first` on name, each of at least `least` bytes.
inline std::vector<int> sizes_of(int count, char** arguments, int first, int least) {
  std::vector<int> sizes;
  for (int i = first; i < count; ++i)
    sizes.push_back(std::max(std::atoi(arguments[i]), least));
  return sizes;
}

/// The median of so many times, in seconds, that `once()` takes; two more before them warm up.
template <class Once>
double median_of(int batches, Once once) {
  std::vector<double> times;
  for (int batch = -2; batch < batches; ++batch) {
    const double time = once();
    if (batch >= 0) times.push_back(time);
  }
  std::ranges::nth_element(times, times.begin() + batches / 2);
  return times[static_cast<std::size_t>(batches) / 2];
}

/// Seconds that 8 B take one way, of so many there and back between ranks 0 and 1. 0 on others.
inline double time_of_8_bytes(int rank, int trips) {
  if (rank > 1) return 0;
  double word = 0;
  const double begin = MPI_Wtime();
  for (int i = 0; i < trips; ++i) {
    if (rank == 0) MPI_Send(&word, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(&word, 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(&word, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - begin) / trips / 2;
}

/// How far the cores of ranks 0 and 1 are from each other now.
inline double distance_of_cores(int rank) {
  return median_of(5, [&] { return time_of_8_bytes(rank, 40); });
}

/// A line "SIZE MICROSECONDS..." for each size, by rank 0; `measure(size)` is a vector of seconds, on all.
/// Where the first are told too, `distance_of_cores` before it and behind it follow.
template <class Measure>
void print_times(int rank, const std::vector<int>& sizes, const Effort& effort, Measure measure) {
  const bool with_cores = effort.first > 0;
  // The first round through the cells of a ring takes twice as long.
  if (with_cores) time_of_8_bytes(rank, 4000);
  for (const int bytes : sizes) {
    const double before = with_cores ? distance_of_cores(rank) : 0;
    std::vector<double> times = measure(bytes);
    if (with_cores) times.insert(times.end(), {before, distance_of_cores(rank)});
    if (rank != 0) continue;
    std::printf("%d", bytes);
    for (const double time : times)
      std::printf(" %.6f", time * 1e6);
    std::printf("\n");
  }
}

}  // namespace isthmus::pair
