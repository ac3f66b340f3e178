// How every benchmark here takes its time: batches of back-to-back operations, as many as fit a time budget.
// Knows nothing of MPI, so that the raw limits are measured by the same rule as the libraries.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace isthmus::bench {

// What one process sees of one point: seconds per operation, one value a batch.
struct Samples {
  std::vector<double> seconds;
  long iterations = 0;  // operations in a batch
};

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Monotonic, and independent of the library under test (MPI_Wtime belongs to it).
inline double now_seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

// A batch is long enough that reading the clock does not show (20 ns against milliseconds), and there are
// enough of them for a median. Operations that outlast the budget (a library that spins with more ranks than
// cores, 256 ranks on two cores) get few batches of few operations, so that no point takes minutes.
struct Plan {
  long iterations;
  int batches;
};

inline Plan plan_batches(double seconds_per_operation, double budget) {
  constexpr int wanted_batches = 15;
  const double batch = budget / wanted_batches;
  if (seconds_per_operation <= batch / 2)
    return {std::max(1L, static_cast<long>(batch / seconds_per_operation)), wanted_batches};
  const double slow_budget = std::max(4 * budget, 2.0);
  const int fitting = static_cast<int>(slow_budget / seconds_per_operation);
  return {1, std::clamp(fitting, 1, wanted_batches)};
}

// Runs on the process that decides. `announce(n)` tells the others to do n operations (0: no more), `run(n)`
// does them and returns the seconds they took. The first runs find out how long an operation takes and warm
// up; one batch more absorbs the skew that the announcement left between the processes, and is not counted.
template <class Announce, class Run>
Samples measure_leading(double budget, Announce&& announce, Run&& run) {
  constexpr long most_operations = 1L << 26;
  long probe = 1;
  double elapsed = 0;
  for (;;) {
    announce(probe);
    elapsed = run(probe);
    if (elapsed >= budget / 20 || probe >= most_operations) break;
    const double growth = budget / 10 / std::max(elapsed, 1e-9);
    probe = std::min(most_operations,
                     static_cast<long>(static_cast<double>(probe) * std::clamp(growth, 2.0, 32.0)));
  }
  const Plan plan = plan_batches(std::max(elapsed, 1e-9) / static_cast<double>(probe), budget);
  announce(plan.iterations * (plan.batches + 1));
  run(plan.iterations);
  Samples samples;
  samples.iterations = plan.iterations;
  for (int batch = 0; batch < plan.batches; ++batch)
    samples.seconds.push_back(run(plan.iterations) / static_cast<double>(plan.iterations));
  announce(0);
  return samples;
}

// Runs on the others, until the deciding process announces 0.
template <class Receive, class Run>
void measure_following(Receive&& receive, Run&& run) {
  while (const long operations = receive())
    run(operations);
}

// Makes of `once`, a single operation, the run(n) that measure_leading asks for. The processes divide the
// operations into runs differently: an operation that depends on its number must count for itself.
template <class Once>
auto repeat(Once once) {
  return [once](long operations) mutable {
    const double start = now_seconds();
    for (long i = 0; i < operations; ++i)
      once();
    return now_seconds() - start;
  };
}

}  // namespace isthmus::bench
