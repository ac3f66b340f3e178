// Every algorithm over messages, whatever the table would choose: ranks are threads of this process.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "coll/call/coll.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll_data.hpp"
#include "comm/communicator.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"

namespace isthmus::coll::algorithms_test {
namespace {

using namespace testing_data;

/// Runs `body` as every rank of a communicator of `n`, and expects that all succeed.
void run_ranks(int n, const std::function<void(Communicator&)>& body) {
  auto jobs = launch::local_jobs(static_cast<std::uint32_t>(n), wire::RingGeometry{64, 16 * 1024});
  ASSERT_TRUE(jobs.has_value()) << jobs.error().text();
  std::vector<std::thread> threads;
  for (const launch::Job& job : *jobs) {
    threads.emplace_back([&job, &body, n] {
      auto engine = Engine::make(job, Settings{});
      ASSERT_TRUE(engine.has_value());
      std::vector<PeerId> members(static_cast<std::size_t>(n));
      std::iota(members.begin(), members.end(), 0U);
      {
        const auto comm =
            Communicator::make(**engine, make_ref<Group>(std::move(members)), Engine::world_context);
        body(*comm);
      }
      (*engine)->finalize();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

class EveryRankCount : public testing::TestWithParam<int> {
 protected:
  int n() const { return GetParam(); }
  const std::vector<std::int64_t> counts{0, 1, 3, 17, 1000, 9001};
};

INSTANTIATE_TEST_SUITE_P(Ranks, EveryRankCount, testing::Values(1, 2, 3, 4, 5, 7, 8));

TEST_P(EveryRankCount, BcastReachesAllFromEveryRoot) {
  using Algorithm = Flow (*)(Ranks, Payload, int);
  for (const Algorithm bcast : {Algorithm{bcast_binomial}, Algorithm{bcast_scatter_allgather}}) {
    run_ranks(n(), [&](Communicator& comm) {
      for (int root = 0; root < n(); ++root) {
        for (const std::int64_t count : counts) {
          Ints buffer = comm.rank() == root ? data(root, 0, count) : Ints(static_cast<std::size_t>(count));
          expect_done(bcast(Ranks(comm, Tag::bcast), Payload::of(buffer.data(), count, int_type()), root));
          EXPECT_EQ(buffer, data(root, 0, count));
        }
      }
    });
  }
}

TEST_P(EveryRankCount, GatherAndScatterKeepRankOrder) {
  run_ranks(n(), [&](Communicator& comm) {
    for (int root = 0; root < n(); ++root) {
      for (const std::int64_t count : counts) {
        const Ranks ranks(comm, Tag::gather);
        const Ints mine = data(comm.rank(), 1, count);
        const Ints all = from_all(n(), 1, count);
        for (const bool binomial : {false, true}) {
          const bool at_root = comm.rank() == root;
          Ints gathered(at_root ? all.size() : 0);
          const In in{mine.data(), count, &int_type()};
          const Out out{gathered.data(), count, &int_type()};
          expect_done(binomial ? gather_binomial(ranks, in, out, root) : gather_linear(ranks, in, out, root));
          if (at_root) EXPECT_EQ(gathered, all);

          Ints back(mine.size());
          const In spread{all.data(), count, &int_type()};
          const Out piece{back.data(), count, &int_type()};
          expect_done(binomial ? scatter_binomial(ranks, spread, piece, root)
                               : scatter_linear(ranks, spread, piece, root));
          EXPECT_EQ(back, mine);
        }
      }
    }
  });
}

TEST_P(EveryRankCount, AllgatherPutsEveryBlockInItsPlace) {
  using Algorithm = Flow (*)(Ranks, Out);
  std::vector<Algorithm> algorithms{allgather_ring, allgather_bruck};
  if ((n() & (n() - 1)) == 0) algorithms.push_back(allgather_doubling);
  for (const Algorithm allgather : algorithms) {
    run_ranks(n(), [&](Communicator& comm) {
      for (const std::int64_t count : counts) {
        Ints all(static_cast<std::size_t>(count * n()));
        const Ints mine = data(comm.rank(), 2, count);
        std::copy(mine.begin(), mine.end(), all.begin() + comm.rank() * count);
        expect_done(allgather(Ranks(comm, Tag::allgather), Out{all.data(), count, &int_type()}));
        EXPECT_EQ(all, from_all(n(), 2, count));
      }
    });
  }
}

TEST_P(EveryRankCount, AlltoallTransposes) {
  run_ranks(n(), [&](Communicator& comm) {
    const Ranks ranks(comm, Tag::alltoall);
    for (const std::int64_t count : counts) {
      Ints leaving;
      for (int i = 0; i < n(); ++i) {
        const Ints block = data(comm.rank(), i, count);
        leaving.insert(leaving.end(), block.begin(), block.end());
      }
      const In in{leaving.data(), count, &int_type()};
      const Ints wanted = from_all(n(), comm.rank(), count);
      Ints arriving(leaving.size());
      const Out out{arriving.data(), count, &int_type()};
      expect_done(alltoall_bruck(ranks, in, out));
      EXPECT_EQ(arriving, wanted);
      arriving.assign(arriving.size(), 0);
      expect_done(alltoall_pairwise(ranks, in, out));
      EXPECT_EQ(arriving, wanted);
      arriving = leaving;
      expect_done(alltoall_in_place(ranks, out));
      EXPECT_EQ(arriving, wanted);
    }
  });
}

struct Sum {
  const Datatype& type;
  const Op& op;
  int words;  ///< of an element

  Ints operand(int rank, std::int64_t count) const { return data(rank, 1, count * words); }
  /// Of the ranks `first` to `last`.
  Ints of(int first, int last, std::int64_t count) const {
    Ints sum = operand(last, count);
    for (int i = last - 1; i >= first; --i)
      EXPECT_TRUE(op.reduce(operand(i, count).data(), sum.data(), count, type).has_value());
    return sum;
  }
};

const Sum& commutative_sum() {
  static const Sum sum{int_type(), Op::predefined(OpCode::sum), 1};
  return sum;
}
/// Elements of two words, as one predefined type of that size: user operations do not look at it.
const Sum& ordered_sum() {
  static const Sum sum{Datatype::basic(Basic::int64), composition(), 2};
  return sum;
}

using Allreduce = Flow (*)(Ranks, const void*, void*, Reduction);

void expect_allreduce(int n, Allreduce allreduce, const Sum& sum, const std::vector<std::int64_t>& counts) {
  run_ranks(n, [&](Communicator& comm) {
    for (const std::int64_t count : counts) {
      const Reduction what{count, &sum.type, &sum.op};
      const Ints mine = sum.operand(comm.rank(), count);
      Ints result(mine.size());
      expect_done(allreduce(Ranks(comm, Tag::allreduce), mine.data(), result.data(), what));
      EXPECT_EQ(result, sum.of(0, n - 1, count));
      result = mine;
      expect_done(allreduce(Ranks(comm, Tag::allreduce), result.data(), result.data(), what));
      EXPECT_EQ(result, sum.of(0, n - 1, count));
    }
  });
}

TEST_P(EveryRankCount, AllreduceDoublingKeepsOrder) {
  expect_allreduce(n(), allreduce_doubling, ordered_sum(), counts);
}
TEST_P(EveryRankCount, AllreduceHalving) {
  expect_allreduce(n(), allreduce_halving, commutative_sum(), counts);
}
TEST_P(EveryRankCount, AllreduceRing) {
  expect_allreduce(n(), allreduce_ring, commutative_sum(), counts);
}

TEST_P(EveryRankCount, ReduceAtEveryRoot) {
  for (const Sum* sum : {&commutative_sum(), &ordered_sum()}) {
    run_ranks(n(), [&](Communicator& comm) {
      const Ranks ranks(comm, Tag::reduce);
      for (int root = 0; root < n(); ++root) {
        for (const std::int64_t count : counts) {
          const Reduction what{count, &sum->type, &sum->op};
          const Ints mine = sum->operand(comm.rank(), count);
          Ints result(mine.size());
          expect_done(reduce_binomial(ranks, mine.data(), result.data(), what, root));
          if (comm.rank() == root) EXPECT_EQ(result, sum->of(0, n() - 1, count));
          if (!sum->op.commutative()) continue;
          result.assign(result.size(), 0);
          expect_done(reduce_ring(ranks, mine.data(), result.data(), what, root));
          if (comm.rank() == root) EXPECT_EQ(result, sum->of(0, n() - 1, count));
        }
      }
    });
  }
}

TEST_P(EveryRankCount, ScansKeepOrder) {
  run_ranks(n(), [&](Communicator& comm) {
    const Ranks ranks(comm, Tag::scan);
    const Sum& sum = ordered_sum();
    for (const std::int64_t count : counts) {
      const Reduction what{count, &sum.type, &sum.op};
      const Ints mine = sum.operand(comm.rank(), count);
      Ints result(mine.size());
      expect_done(scan_doubling(ranks, mine.data(), result.data(), what));
      EXPECT_EQ(result, sum.of(0, comm.rank(), count));
      result.assign(result.size(), -5);
      expect_done(exscan_doubling(ranks, mine.data(), result.data(), what));
      EXPECT_EQ(result, comm.rank() == 0 ? Ints(mine.size(), -5) : sum.of(0, comm.rank() - 1, count));
    }
  });
}

TEST_P(EveryRankCount, ReduceScatterGivesEveryRankItsPiece) {
  std::vector<int> counts;
  for (int i = 0; i < n(); ++i)
    counts.push_back(i % 3 == 1 ? 0 : 100 * i + 1);
  const int total = std::accumulate(counts.begin(), counts.end(), 0);
  for (const Sum* sum : {&commutative_sum(), &ordered_sum()}) {
    run_ranks(n(), [&](Communicator& comm) {
      const Ranks ranks(comm, Tag::reduce_scatter);
      const Reduction what{0, &sum->type, &sum->op};
      const Ints mine = sum->operand(comm.rank(), total);
      const Ints all = sum->of(0, n() - 1, total);
      const int before = std::accumulate(counts.begin(), counts.begin() + comm.rank(), 0);
      const int count = counts[static_cast<std::size_t>(comm.rank())];
      const Ints piece(all.begin() + before * sum->words, all.begin() + (before + count) * sum->words);
      Ints result(piece.size());
      expect_done(reduce_scatter_by_root(ranks, mine.data(), result.data(), counts.data(), what));
      EXPECT_EQ(result, piece);
      if (!sum->op.commutative()) return;
      result.assign(result.size(), 0);
      expect_done(reduce_scatter_pairwise(ranks, mine.data(), result.data(), counts.data(), what));
      EXPECT_EQ(result, piece);
    });
  }
}

TEST_P(EveryRankCount, BarrierHoldsUntilTheLastHasCome) {
  std::atomic<int> arrived{0};
  run_ranks(n(), [&](Communicator& comm) {
    for (int round = 1; round <= 20; ++round) {
      if (round % n() == comm.rank()) std::this_thread::yield();
      arrived.fetch_add(1);
      expect_done(barrier_dissemination(Ranks(comm, Tag::barrier)));
      EXPECT_GE(arrived.load(), round * n());
    }
  });
}

// What sizes do not match is an error where it is noticed, and no hang.
TEST(CollectiveSizes, AShorterMessageThanExpectedIsAnError) {
  run_ranks(2, [](Communicator& comm) {
    Ints buffer(8, comm.rank());
    const std::int64_t count = comm.rank() == 0 ? 4 : 8;
    const Result<> result =
        bcast_binomial(Ranks(comm, Tag::bcast), Payload::of(buffer.data(), count, int_type()), 0).result();
    EXPECT_EQ(result.has_value(), comm.rank() == 0);
  });
}

}  // namespace
}  // namespace isthmus::coll::algorithms_test
