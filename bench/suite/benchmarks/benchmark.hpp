// One benchmark of the suite, and the list of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "suite/core/options.hpp"
#include "suite/job/job.hpp"

namespace isthmus::bench {

enum class Ranks : std::uint8_t { two, even, any };

struct Benchmark {
  std::string name;
  std::string_view group;
  std::string meaning;
  Ranks ranks = Ranks::two;
  unsigned features = 0;
  std::size_t unit = 1;  // sizes are multiples of it
  std::function<void(const Job& job, std::size_t bytes)> run;
  // Bytes that a rank allocates; without it, twice the size.
  std::function<std::size_t(const Job& job, std::size_t bytes)> needs;
  bool threads = false;             // asks for MPI_THREAD_MULTIPLE
  Element element = Element::byte;  // of its messages, where the user names none
};

// In the order in which help lists them.
const std::vector<Benchmark>& benchmarks();

// Those of each file.
std::vector<Benchmark> latency_benchmarks();
std::vector<Benchmark> bandwidth_benchmarks();
std::vector<Benchmark> persistent_benchmarks();
std::vector<Benchmark> thread_benchmarks();
std::vector<Benchmark> one_sided_benchmarks();
std::vector<Benchmark> collective_benchmarks();
std::vector<Benchmark> start_benchmarks();
std::vector<Benchmark> application_benchmarks();

}  // namespace isthmus::bench
