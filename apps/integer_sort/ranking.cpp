#include "ranking.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace integer_sort {
namespace {

std::size_t size(int count) {
  return static_cast<std::size_t>(count);
}

void sum_before(const std::vector<int>& counts, std::vector<int>& offsets) {
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
}

}  // namespace

Ranking::Ranking(const Problem& problem, const KeyShare& share, const apps::Member& member)
    : problem_(problem),
      share_(share),
      member_(member),
      mine_(size(problem.buckets()) + problem.tests.size()),
      everyones_(mine_.size()),
      first_bucket_(size(member.size) + 1),
      outgoing_(static_cast<std::size_t>(share.size)),
      send_counts_(size(member.size)),
      send_offsets_(size(member.size)),
      receive_counts_(size(member.size)),
      receive_offsets_(size(member.size)) {}

void Ranking::rank(const std::vector<int>& keys) {
  const double begin = MPI_Wtime();
  measure_buckets(keys);
  divide_buckets();
  sort_into_buckets(keys);
  exchange();
  count();
  times_.total += MPI_Wtime() - begin;
}

void Ranking::measure_buckets(const std::vector<int>& keys) {
  std::ranges::fill(mine_, 0);
  for (const int key : keys)
    ++mine_[size(problem_.bucket_of(key))];
  for (std::size_t i = 0; i < problem_.tests.size(); ++i) {
    const std::int64_t index = problem_.tests[i].index;
    if (share_.holds(index))
      mine_[size(problem_.buckets()) + i] = keys[static_cast<std::size_t>(index - share_.begin)];
  }
  const double begin = MPI_Wtime();
  MPI_Allreduce(mine_.data(), everyones_.data(), static_cast<int>(mine_.size()), MPI_INT32_T, MPI_SUM,
                member_.comm);
  times_.allreduce += MPI_Wtime() - begin;
  std::copy_n(everyones_.begin() + problem_.buckets(), problem_.tests.size(), ranked_.test_keys.begin());
}

// Each process takes buckets in a row until all processes up to it have their part of the keys.
void Ranking::divide_buckets() {
  int bucket = 0;
  std::int64_t before = 0;
  for (int process = 0; process < member_.size; ++process) {
    first_bucket_[size(process)] = bucket;
    if (process == member_.rank) ranked_.smaller = before;
    const std::int64_t goal = problem_.keys() * (process + 1) / member_.size;
    while (bucket < problem_.buckets() && before < goal)
      before += everyones_[size(bucket++)];
  }
  first_bucket_.back() = problem_.buckets();  // the last buckets may be empty
}

void Ranking::sort_into_buckets(const std::vector<int>& keys) {
  for (int process = 0; process < member_.size; ++process) {
    send_counts_[size(process)] = std::accumulate(mine_.begin() + first_bucket_[size(process)],
                                                  mine_.begin() + first_bucket_[size(process) + 1], 0);
  }
  sum_before(send_counts_, send_offsets_);
  std::vector<std::int32_t> next(size(problem_.buckets()));
  std::exclusive_scan(mine_.begin(), mine_.begin() + problem_.buckets(), next.begin(), 0);
  for (const int key : keys)
    outgoing_[size(next[size(problem_.bucket_of(key))]++)] = key;
}

void Ranking::exchange() {
  const double begin = MPI_Wtime();
  MPI_Alltoall(send_counts_.data(), 1, MPI_INT, receive_counts_.data(), 1, MPI_INT, member_.comm);
  times_.counts += MPI_Wtime() - begin;
  sum_before(receive_counts_, receive_offsets_);
  ranked_.keys.resize(size(receive_offsets_.back() + receive_counts_.back()));
  const double counted = MPI_Wtime();
  MPI_Alltoallv(outgoing_.data(), send_counts_.data(), send_offsets_.data(), MPI_INT, ranked_.keys.data(),
                receive_counts_.data(), receive_offsets_.data(), MPI_INT, member_.comm);
  times_.keys += MPI_Wtime() - counted;
}

void Ranking::count() {
  ranked_.first_key = problem_.first_key_of(first_bucket_[size(member_.rank)]);
  const int end_key = problem_.first_key_of(first_bucket_[size(member_.rank) + 1]);
  ranked_.at_most.assign(size(end_key - ranked_.first_key), 0);
  for (const int key : ranked_.keys) {
    if (!ranked_.holds(key))
      throw std::runtime_error("the key " + std::to_string(key) +
                               " arrived at a process that ranks those from " +
                               std::to_string(ranked_.first_key) + " to below " + std::to_string(end_key));
    ++ranked_.at_most[size(key - ranked_.first_key)];
  }
  std::inclusive_scan(ranked_.at_most.begin(), ranked_.at_most.end(), ranked_.at_most.begin());
}

}  // namespace integer_sort
