#include "gpu/rounds.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdio>

namespace isthmus::bench {

Rounds::Rounds(double seconds, int rounds) : seconds_(seconds), rounds_(rounds) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
}

double Rounds::time(const Way& way, long operations) const {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_seconds();
  for (long i = 0; i < operations; ++i)
    way.once();
  const double mine = now_seconds() - start;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

// Warms up, too. All ranks see the same times, so they come to the same number.
long Rounds::calibrate(const Way& way) const {
  const double wanted = seconds_ / rounds_;
  long operations = 1;
  // What is made at a first use is no measure of what follows.
  for (int i = 0; i < 3; ++i)
    time(way, 1);
  for (;;) {
    double elapsed = time(way, operations);
    // Nor is what took long once: a library that makes something after some messages.
    if (elapsed >= wanted / 2) elapsed = time(way, operations);
    if (elapsed >= wanted / 2 || operations >= 1'000'000)
      return std::max(1L,
                      static_cast<long>(static_cast<double>(operations) * wanted / std::max(elapsed, 1e-9)));
    operations = static_cast<long>(static_cast<double>(operations) *
                                   std::clamp(wanted / std::max(elapsed, 1e-9), 2.0, 20.0));
  }
}

void Rounds::measure(std::string_view point, const Meaning& meaning, const std::vector<Way>& ways) const {
  std::vector<long> operations;
  operations.reserve(ways.size());
  std::vector<std::vector<double>> seconds(ways.size());
  for (const Way& way : ways)
    operations.push_back(calibrate(way));
  for (int round = 0; round < rounds_; ++round)
    for (std::size_t i = 0; i < ways.size(); ++i)
      seconds[i].push_back(meaning.share * time(ways[i], operations[i]) / static_cast<double>(operations[i]));
  for (std::size_t i = 0; i < ways.size() && rank_ == 0; ++i) {
    const auto [low, high] = std::minmax_element(seconds[i].begin(), seconds[i].end());
    std::printf(
        "{\"point\": \"%.*s\", \"way\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, \"fastest\": %.6g, "
        "\"slowest\": "
        "%.6g, \"rounds\": %d, \"operations\": %ld}\n",
        static_cast<int>(point.size()), point.data(), ways[i].name.c_str(), name_of(meaning.unit),
        in_unit(median(seconds[i]), meaning.unit, meaning.amount),
        in_unit(*low, meaning.unit, meaning.amount), in_unit(*high, meaning.unit, meaning.amount), rounds_,
        operations[i]);
    std::fflush(stdout);
  }
}

void Rounds::demand(std::string_view point, std::string_view way, bool right) const {
  const int wrong_here = right ? 0 : 1;
  int wrong = 0;
  if (wrong_here != 0) fail(point, way, "wrong contents on rank " + std::to_string(rank_));
  MPI_Allreduce(&wrong_here, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (wrong != 0) MPI_Abort(MPI_COMM_WORLD, 3);
}

void Rounds::fail(std::string_view point, std::string_view way, std::string_view why) const {
  std::printf("{\"point\": \"%.*s\", \"way\": \"%.*s\", \"failure\": \"%s\"}\n",
              static_cast<int>(point.size()), point.data(), static_cast<int>(way.size()), way.data(),
              plain(why).c_str());
  std::fflush(stdout);
}

}  // namespace isthmus::bench
