#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

/// What the programs that `isthmus tune` measures with have in common.
namespace isthmus::pair {

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

/// A line "SIZE MICROSECONDS..." for each size, by rank 0; `measure(size)` is a vector of seconds, on both.
template <class Measure>
void print_times(int rank, const std::vector<int>& sizes, Measure measure) {
  for (const int bytes : sizes) {
    const std::vector<double> times = measure(bytes);
    if (rank != 0) continue;
    std::printf("%d", bytes);
    for (const double time : times)
      std::printf(" %.6f", time * 1e6);
    std::printf("\n");
  }
}

}  // namespace isthmus::pair
