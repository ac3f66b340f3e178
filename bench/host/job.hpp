// What the benchmarks of one launch share: the ranks, the time budget, and how a point is measured and
// reported.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "common/measure.hpp"
#include "common/report.hpp"

namespace isthmus::bench {

// How a timed operation turns into a point's value: what it does (bytes for GB/s, messages for M/s), and
// which part of its time is the point's (a half where a round trip is timed and one way is meant).
struct Meaning {
  Unit unit;
  double amount = 1;
  double share = 1;
};

// The ranks of MPI_COMM_WORLD. Rank 0 decides how long to measure, and reports.
class Job {
 public:
  explicit Job(double budget_seconds) : budget_(budget_seconds) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // `once()` is the operation as this rank takes part in it; collective.
  template <class Once>
  void measure(std::string_view point, const Meaning& meaning, Once once) const {
    auto run = repeat(once);
    if (rank_ != 0) {
      measure_following([] { return agree(0); }, run);
      return;
    }
    Samples samples = measure_leading(budget_, [](long n) { agree(n); }, run);
    for (double& seconds : samples.seconds)
      seconds *= meaning.share;
    report_samples(point, meaning.unit, samples, meaning.amount);
  }

  // Ends the job when any rank found wrong contents; collective. `fault` is empty where all was right.
  void demand(std::string_view point, const std::string& fault) const {
    const int wrong_here = fault.empty() ? 0 : 1;
    int wrong = 0;
    if (wrong_here) report_failure(point, "rank " + std::to_string(rank_) + ": " + fault);
    MPI_Allreduce(&wrong_here, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (wrong) MPI_Abort(MPI_COMM_WORLD, 3);
  }

 private:
  // Rank 0's number, on every rank.
  static long agree(long operations) {
    MPI_Bcast(&operations, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return operations;
  }

  int rank_ = 0;
  int ranks_ = 1;
  double budget_;
};

// "byte 17 is wrong" for what Pages::mismatch found, empty where it found nothing.
template <class Offset>
std::string fault_text(const Offset& offset) {
  return offset ? "byte " + std::to_string(*offset) + " is wrong" : std::string();
}

// One family of points: "latency" in latency.8B. A family without sizes is called with 0 bytes.
struct Family {
  std::string_view name;
  bool sized;
  int ranks;  // how many it needs, 0 for any number
  void (*run)(const Job&, std::string_view point, std::size_t bytes);
};

}  // namespace isthmus::bench
