#include "benchmark.hpp"

#include <array>

#include "common/progress.hpp"
#include "keys.hpp"
#include "verification.hpp"

namespace integer_sort {
namespace {

Times mean_of(const Times& mine, const apps::Member& member) {
  const std::array<double, 4> spent{mine.total, mine.allreduce, mine.counts, mine.keys};
  std::array<double, 4> all{};
  MPI_Allreduce(spent.data(), all.data(), static_cast<int>(spent.size()), MPI_DOUBLE, MPI_SUM, member.comm);
  return {all[0] / member.size, all[1] / member.size, all[2] / member.size, all[3] / member.size};
}

}  // namespace

Outcome run(const Options& options, const apps::Member& member) {
  const Problem& problem = *options.problem;
  const KeyShare share = apps::share_of(problem.keys(), member.size, member.rank);
  std::vector<int> keys = make_keys(problem, share);
  Ranking ranking(problem, share, member);
  const apps::ProgressStyle style = options.output.json ? apps::ProgressStyle::none : options.output.progress;
  apps::Progress progress(style, "integer_sort", member.speaks(), iterations);

  // One ranking that does not count, which the report allows: it touches all memory.
  replace_keys(problem, share, 1, keys);
  ranking.rank(keys);
  ranking.forget_times();

  int right = 0;
  MPI_Barrier(member.comm);
  const double begin = MPI_Wtime();
  for (int iteration = 1; iteration <= iterations; ++iteration) {
    replace_keys(problem, share, iteration, keys);
    ranking.rank(keys);
    right += count_right_tests(problem, ranking.ranked(), iteration);
    progress.update(iteration, MPI_Wtime() - begin);
  }
  const double seconds = MPI_Wtime() - begin;
  progress.finish();

  Outcome outcome;
  MPI_Allreduce(&seconds, &outcome.seconds, 1, MPI_DOUBLE, MPI_MAX, member.comm);
  MPI_Allreduce(&right, &outcome.right_tests, 1, MPI_INT, MPI_SUM, member.comm);
  const auto held = static_cast<std::int64_t>(ranking.ranked().keys.size());
  MPI_Allreduce(&held, &outcome.most_keys, 1, MPI_INT64_T, MPI_MAX, member.comm);
  outcome.mean = mean_of(ranking.times(), member);
  outcome.wanted_tests = iterations * static_cast<int>(problem.tests.size());
  outcome.sorted = is_sorted_by_rank(problem, ranking.ranked(), keys, member);
  return outcome;
}

}  // namespace integer_sort
