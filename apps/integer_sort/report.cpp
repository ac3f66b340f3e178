#include "report.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "common/library.hpp"

namespace integer_sort {
namespace {

double million_keys_a_second(const Problem& problem, const Outcome& outcome) {
  return 1e-6 * static_cast<double>(problem.keys()) * iterations / outcome.seconds;
}

void print_json(const Problem& problem, const Outcome& outcome, int processes) {
  const nlohmann::ordered_json json{
      {"program", "integer_sort"},
      {"library", apps::library()},
      {"class", std::string(1, problem.name)},
      {"keys", problem.keys()},
      {"processes", processes},
      {"iterations", iterations},
      {"seconds", outcome.seconds},
      {"million_keys_a_second", million_keys_a_second(problem, outcome)},
      {"seconds_mean",
       {{"total", outcome.mean.total},
        {"allreduce", outcome.mean.allreduce},
        {"alltoall", outcome.mean.counts},
        {"alltoallv", outcome.mean.keys}}},
      {"most_keys_of_a_process", outcome.most_keys},
      {"right_tests", outcome.right_tests},
      {"wanted_tests", outcome.wanted_tests},
      {"sorted", outcome.sorted},
      {"correct", outcome.correct()},
  };
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void print_text(const Problem& problem, const Outcome& outcome, int processes) {
  const Times& mean = outcome.mean;
  auto percent = [&](double seconds) { return 100 * seconds / mean.total; };
  std::printf("  ranks        %d of %d test keys as published: %s\n", outcome.right_tests,
              outcome.wanted_tests, outcome.right_tests == outcome.wanted_tests ? "correct" : "WRONG");
  std::printf(
      "  order        the keys, put in their places, are %s\n",
      outcome.sorted ? "the same keys and sorted: correct" : "not sorted or not the same keys: WRONG");
  std::printf("  balance      the fullest process ranked %.2f times its share\n",
              static_cast<double>(outcome.most_keys) * processes / static_cast<double>(problem.keys()));
  std::printf("  time         %.3f ms an iteration, %.3f s in all\n", 1e3 * outcome.seconds / iterations,
              outcome.seconds);
  std::printf("  of that      allreduce %.1f %%, alltoall %.1f %%, alltoallv %.1f %%, the rest computation\n",
              percent(mean.allreduce), percent(mean.counts), percent(mean.keys));
  std::printf("  speed        %.1f million keys a second\n", million_keys_a_second(problem, outcome));
}

}  // namespace

void print_setting(const Options& options, const apps::Member& member) {
  if (!member.speaks() || options.output.json) return;
  const Problem& problem = *options.problem;
  std::printf("integer_sort: class %c, %lld keys below %d, %d iterations\n", problem.name,
              static_cast<long long>(problem.keys()), problem.limit(), iterations);
  std::printf("  library      %s\n", apps::library().c_str());
  std::printf("  processes    %d, %d buckets\n", member.size, problem.buckets());
  std::fflush(stdout);
}

void print_outcome(const Options& options, const Outcome& outcome, const apps::Member& member) {
  if (!member.speaks()) return;
  if (options.output.json) {
    print_json(*options.problem, outcome, member.size);
  } else {
    print_text(*options.problem, outcome, member.size);
  }
  std::fflush(stdout);
}

}  // namespace integer_sort
