// The collectives that go through memory of the region, a piece at a time, whatever the table would choose.

#include "coll/team/staged.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "coll/team/flat.hpp"
#include "coll_data.hpp"
#include "datatype/make/construct.hpp"
#include "team_ranks.hpp"

namespace isthmus::coll::staged_test {
namespace {

using namespace testing_data;

using StagedAt = testing_team::TeamAt;

INSTANTIATE_TEST_SUITE_P(Ranks, StagedAt, testing::Values(2U, 3U, 5U, 17U));

/// Some of one piece, and some of several that end in the middle of one.
constexpr std::int64_t counts[]{1, 3, 4096, 4097, 50'001, 150'001};

TEST_P(StagedAt, BcastReachesAllFromEveryRoot) {
  run([](Communicator& comm, Team& team) {
    for (int root = 0; root < comm.size(); root += 4) {
      for (const std::int64_t count : counts) {
        const Ints wanted = data(root, 0, count);
        Ints buffer = comm.rank() == root ? wanted : Ints(wanted.size(), -1);
        expect_done(bcast_staged(team, Payload::of(buffer.data(), count, int_type()), root));
        EXPECT_EQ(buffer, wanted);
      }
    }
  });
}

/// Roots that move and stay, of any length, with other collectives between them whose slots must still be
/// free, and members that are late: where two members use slots again, nothing is written that is still to be
/// read.
TEST_P(StagedAt, BcastsOfRootsThatMoveKeepApartFromAllElse) {
  run([](Communicator& comm, Team& team) {
    std::minstd_rand draw(17);  // the same for all
    std::minstd_rand own(static_cast<unsigned>(comm.rank()) + 1);
    for (int call = 0; call < 300; ++call) {
      if (own() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 200));
      const std::int64_t count = 1 + draw() % (draw() % 4 == 0 ? 60'000 : 12'000);
      if (const unsigned kind = draw() % 8; kind == 0) {
        const Ints mine = data(comm.rank(), call, count);
        Ints wanted, all(mine.size() * static_cast<std::size_t>(comm.size()), -1);
        for (int i = 0; i < comm.size(); ++i)
          std::ranges::copy(data(i, call, count), std::back_inserter(wanted));
        expect_done(
            allgather_staged(team, {mine.data(), count, &int_type()}, {all.data(), count, &int_type()}));
        ASSERT_EQ(all, wanted) << "allgather " << call;
      } else {
        const int root = static_cast<int>(draw() % static_cast<unsigned>(comm.size()));
        const std::int64_t length = kind == 1 ? std::min<std::int64_t>(count, 4096) : count;
        const Ints wanted = data(root, call, length);
        Ints buffer = comm.rank() == root ? wanted : Ints(wanted.size(), -1);
        const Payload payload = Payload::of(buffer.data(), length, int_type());
        expect_done(kind == 1 ? bcast_flat(team, payload, root) : bcast_staged(team, payload, root));
        ASSERT_EQ(buffer, wanted) << "bcast " << call;
      }
    }
  });
}

/// Each of two ranks takes itself for the root, and nobody listens; the next bcast tells it to who does.
TEST(StagedBcast, NamesRootsThatDidNotMatchInTheOneBefore) {
  testing_team::run_team(2, [](Communicator& comm, Team& team) {
    Ints buffer(9000, comm.rank());
    const Payload payload = Payload::of(buffer.data(), 9000, int_type());
    expect_done(bcast_staged(team, payload, 0));
    expect_done(bcast_staged(team, payload, comm.rank()));
    const auto told = bcast_staged(team, payload, 0);
    ASSERT_EQ(told.has_value(), comm.rank() == 0);
    if (comm.rank() == 1) {
      EXPECT_NE(told.error().text().find("different roots"), std::string::npos);
    }
  });
}

TEST_P(StagedAt, BcastGoesFromAndToGaps) {
  run([](Communicator& comm, Team& team) {
    const Ints wanted = data(0, 0, 9001);
    const std::size_t stride = comm.rank() % 2 == 0 ? 2 : 1;
    const auto strided =
        vector_type(static_cast<std::int64_t>(wanted.size()), 1, static_cast<std::int64_t>(stride),
                    Datatype::basic(Basic::int32), Form::small);
    ASSERT_TRUE((*strided)->commit());
    Ints buffer(wanted.size() * stride, -1);
    for (std::size_t i = 0; comm.rank() == 0 && i < wanted.size(); ++i)
      buffer[i * stride] = wanted[i];
    expect_done(bcast_staged(team, Payload::of(buffer.data(), 1, **strided), 0));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < buffer.size(); ++i)
      wrong += buffer[i] != (i % stride == 0 ? wanted[i / stride] : -1) ? 1 : 0;
    EXPECT_EQ(wrong, 0U);
  });
}

TEST_P(StagedAt, AllgatherReachesAllInPlaceAndNot) {
  run([](Communicator& comm, Team& team) {
    for (const std::int64_t count : counts) {
      for (const bool here : {false, true}) {
        const auto n = static_cast<std::size_t>(comm.size());
        const auto block = static_cast<std::size_t>(count);
        Ints mine = data(comm.rank(), 2, count);
        Ints wanted, all(n * block, -1);
        for (int i = 0; i < comm.size(); ++i)
          std::ranges::copy(data(i, 2, count), std::back_inserter(wanted));
        if (here) std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(block) * comm.rank());
        expect_done(allgather_staged(team, {here ? in_place : mine.data(), count, &int_type()},
                                     {all.data(), count, &int_type()}));
        EXPECT_EQ(all, wanted) << count << " in place: " << here;
      }
    }
  });
}

/// One member's ends in a piece that another's has not. Both are told, and the next call is right.
TEST_P(StagedAt, AllgathersThatDoNotMatchLeaveAllInStep) {
  run([](Communicator& comm, Team& team) {
    const std::int64_t count = comm.rank() == 0 ? 9000 : 3000;
    const Ints mine(static_cast<std::size_t>(count), 1);
    Ints all(static_cast<std::size_t>(count) * static_cast<std::size_t>(comm.size()));
    EXPECT_FALSE(allgather_staged(team, {mine.data(), count, &int_type()}, {all.data(), count, &int_type()}));
    for (int i = 0; i < 12; ++i)
      expect_done(barrier_flat(team));
  });
}

/// Blocks that end in different pieces, one of them empty, with room between them that stays as it was.
TEST_P(StagedAt, AllgatherOfBlocksOfAnyLengthLeavesWhatIsBetweenThem) {
  run([](Communicator& comm, Team& team) {
    std::vector<int> lengths, places;
    int end = 0;
    for (int i = 0; i < comm.size(); ++i) {
      lengths.push_back(i == 1 ? 0 : 1000 + 5003 * i);
      places.push_back(end + 3);
      end = places.back() + lengths.back();
    }
    Ints wanted(static_cast<std::size_t>(end) + 3, -1);
    for (int i = 0; i < comm.size(); ++i)
      std::ranges::copy(data(i, 3, lengths[static_cast<std::size_t>(i)]),
                        wanted.begin() + places[static_cast<std::size_t>(i)]);
    const auto rank = static_cast<std::size_t>(comm.rank());
    Ints mine = data(comm.rank(), 3, lengths[rank]);
    Ints all(wanted.size(), -1);
    expect_done(
        allgather_staged(team, {mine.data(), lengths[rank], &int_type()},
                         {all.data(), Integers(lengths.data()), Integers(places.data()), &int_type()}));
    EXPECT_EQ(all, wanted);
  });
}

TEST_P(StagedAt, AlltoallReachesAllInPlaceAndNot) {
  run([](Communicator& comm, Team& team) {
    for (const std::int64_t count : {1, 1000, 5003}) {
      for (const bool here : {false, true}) {
        // From each to each a block of its own.
        Ints leaving, wanted;
        for (int i = 0; i < comm.size(); ++i) {
          std::ranges::copy(data(comm.rank(), i, count), std::back_inserter(leaving));
          std::ranges::copy(data(i, comm.rank(), count), std::back_inserter(wanted));
        }
        auto stage = team.stage(leaving.size() * sizeof leaving[0]);
        ASSERT_TRUE(stage && *stage);
        Ints all = here ? leaving : Ints(leaving.size(), -1);
        expect_done(alltoall_staged(team, {here ? in_place : leaving.data(), count, &int_type()},
                                    {all.data(), count, &int_type()}, *stage));
        EXPECT_EQ(all, wanted) << count << " in place: " << here;
      }
    }
  });
}

/// Reduces with `op` to all and to some roots, in place and not.
void reduce_all_ways(Communicator& comm, Team& team, const Datatype& type, const Op& op, std::int64_t words,
                     std::int64_t count) {
  const Reduction what{count, &type, &op};
  const Ints mine = data(comm.rank(), 1, count * words);
  Ints wanted = data(comm.size() - 1, 1, count * words);
  for (int i = comm.size() - 2; i >= 0; --i)
    expect_done(op.reduce(data(i, 1, count * words).data(), wanted.data(), count, type));
  for (const int root : {everybody, 0, comm.size() - 1}) {
    for (const bool here : {false, true}) {
      const bool has_result = root == everybody || root == comm.rank();
      auto stage = team.stage(reduce_stage_bytes(what));
      ASSERT_TRUE(stage && *stage);
      Ints result = here ? mine : Ints(mine.size(), -1);
      expect_done(reduce_staged(team, here && has_result ? result.data() : mine.data(),
                                has_result ? result.data() : nullptr, what, root, *stage));
      if (has_result) {
        EXPECT_EQ(result, wanted);
      }
    }
  }
}

TEST_P(StagedAt, ReductionsAreThoseOfAllOperandsInOrder) {
  const auto pair = contiguous_type(2, Datatype::basic(Basic::uint32), Form::small);
  ASSERT_TRUE((*pair)->commit());
  // An element that is longer than a piece.
  const auto huge = contiguous_type(40'000, Datatype::basic(Basic::uint32), Form::small);
  ASSERT_TRUE((*huge)->commit());
  static const Ref<Op> sum_of_words = Op::user(
      [](const void* in, void* inout, std::int64_t count, const Datatype& type) {
        const auto* left = static_cast<const std::uint32_t*>(in);
        auto* right = static_cast<std::uint32_t*>(inout);
        for (std::int64_t i = 0; i < count * type.size() / 4; ++i)
          right[i] += left[i];
      },
      true);
  run([&](Communicator& comm, Team& team) {
    for (const std::int64_t count : counts) {
      reduce_all_ways(comm, team, int_type(), Op::predefined(OpCode::sum), 1, count);
      reduce_all_ways(comm, team, **pair, composition(), 2, count);
    }
    reduce_all_ways(comm, team, **huge, *sum_of_words, 40'000, 5);
  });
}

}  // namespace
}  // namespace isthmus::coll::staged_test
