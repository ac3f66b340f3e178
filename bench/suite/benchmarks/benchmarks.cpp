#include <iterator>

#include "suite/benchmarks/benchmark.hpp"

namespace isthmus::bench {

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> all = [] {
    std::vector<Benchmark> list;
    for (auto* part :
         {latency_benchmarks, bandwidth_benchmarks, persistent_benchmarks, thread_benchmarks,
          one_sided_benchmarks, collective_benchmarks, start_benchmarks, application_benchmarks}) {
      std::vector<Benchmark> some = part();
      std::move(some.begin(), some.end(), std::back_inserter(list));
    }
    return list;
  }();
  return all;
}

}  // namespace isthmus::bench
