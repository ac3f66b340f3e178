// One ranking of all keys, by a bucket sort among the processes.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "common/member.hpp"
#include "keys.hpp"
#include "problem.hpp"

namespace integer_sort {

// Seconds of this process.
struct Times {
  double total = 0;
  double allreduce = 0;  // sizes of the buckets
  double counts = 0;     // alltoall: how many keys go from whom to whom
  double keys = 0;       // alltoallv: the keys
};

// What a process knows after a ranking: the keys of its buckets, and the ranks of all keys that lie there. A
// key's rank is the number of smaller keys.
struct Ranked {
  int first_key = 0;                  // of this process's buckets
  std::int64_t smaller = 0;           // keys that lie before them, with other processes
  std::vector<int> keys;              // as they came
  std::vector<std::int32_t> at_most;  // for first_key + i: how many of `keys` are no larger
  std::array<int, 5> test_keys{};     // the keys of Problem::tests

  // Of a key in this process's buckets.
  [[nodiscard]] std::int64_t rank_of(int key) const {
    return smaller + (key == first_key ? 0 : at_most[static_cast<std::size_t>(key - first_key - 1)]);
  }
  [[nodiscard]] bool holds(int key) const {
    return key >= first_key && key - first_key < static_cast<std::int64_t>(at_most.size());
  }
};

class Ranking {
 public:
  // All but `member.comm` are copied or made; that is borrowed.
  Ranking(const Problem& problem, const KeyShare& share, const apps::Member& member);

  // Collective.
  void rank(const std::vector<int>& keys);

  // Of the last ranking.
  [[nodiscard]] const Ranked& ranked() const { return ranked_; }
  // Of all rankings since they were last forgotten.
  [[nodiscard]] const Times& times() const { return times_; }
  void forget_times() { times_ = {}; }

 private:
  void measure_buckets(const std::vector<int>& keys);
  void divide_buckets();
  void sort_into_buckets(const std::vector<int>& keys);
  void exchange();
  void count();

  Problem problem_;
  KeyShare share_;
  apps::Member member_;
  Times times_;
  std::vector<std::int32_t>
      mine_;  // keys of this process in each bucket; then its test keys, 0 for those of others
  std::vector<std::int32_t> everyones_;  // the same, summed over all
  std::vector<int> first_bucket_;        // of each process, and one more that ends the last's
  std::vector<int> outgoing_;
  std::vector<int> send_counts_, send_offsets_, receive_counts_, receive_offsets_;
  Ranked ranked_;
};

}  // namespace integer_sort
