// The collectives that go through memory of the region, a piece at a time, whatever the table would choose.

#include "coll/team/staged.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "coll/team/flat.hpp"
#include "coll_data.hpp"
#include "datatype/make/construct.hpp"
#include "team_ranks.hpp"

namespace isthmus::coll {
namespace {

using namespace testing_data;

using StagedAt = testing_team::TeamAt;

INSTANTIATE_TEST_SUITE_P(Ranks, StagedAt, testing::Values(2U, 3U, 5U, 17U));

/// Some of one piece, and some of several that end in the middle of one.
constexpr std::int64_t counts[]{1, 3, 4096, 4097, 50'001};

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
    reduce_all_ways(comm, team, **huge, *sum_of_words, 40'000, 3);
  });
}

}  // namespace
}  // namespace isthmus::coll
