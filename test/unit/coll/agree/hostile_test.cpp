// Contexts that another process proposes, and contexts that run out: a communicator is made of an id of its
// maker's that is not in use here, or there is a clear error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "coll/agree/agree.hpp"
#include "coll/agree/circle.hpp"
#include "comm/communicator.hpp"
#include "comm/split.hpp"
#include "engine_hostile.hpp"
#include "engine_ranks.hpp"
#include "p2p/message/context_ids.hpp"

namespace isthmus::coll::hostile_test {
namespace {

using testing::HasSubstr;

/// The first and the last id of a process.
ContextId id_of(PeerId maker, std::uint64_t number = 1) {
  return ContextIds(maker, number).take();
}

/// The engine is rank 1 of a communicator whose rank 0, which proposes, is the test.
class AgreeHostile : public testing_hostile::EngineHostile {
 protected:
  void SetUp() override {
    EngineHostile::SetUp();
    comm = Communicator::make(*engine, make_ref<Group>(std::vector<PeerId>{1, 0}), Engine::world_context);
  }
  void TearDown() override { comm = {}; }

  /// What MPI_Comm_dup makes of that proposal.
  Result<Ref<Communicator>> duplicate_with(ContextId proposal) {
    say(comm->context_id() + 1, 0, static_cast<int>(Tag::set_up), proposal);
    return duplicate(*comm);
  }
  /// A message in `comm` still arrives.
  void expect_usable() {
    int got = 0;
    Request* receive = engine->start_receive(comm->context(), 0, 9, Payload::of(&got, sizeof got));
    say(comm->context_id(), 0, 9, 77);
    progress();
    EXPECT_TRUE(receive->complete);
    EXPECT_EQ(got, 77);
    engine->free(receive);
  }

  Ref<Communicator> comm;
};

TEST_F(AgreeHostile, AnIdThatIsNotItsMakersMakesNoCommunicator) {
  const ContextId first = id_of(1);
  for (const ContextId id :
       {Engine::world_context, Engine::world_context + 1, Engine::self_context, Engine::internal_context,
        id_of(0), id_of(2), first - 1, first + 1, first - 2, ~ContextId{0}, ContextId{1} << 63}) {
    const auto made = duplicate_with(id);
    EXPECT_FALSE(made) << std::hex << id;
    expect_usable();
  }
  const auto honest = duplicate_with(first);
  ASSERT_TRUE(honest) << honest.error().text();
  EXPECT_EQ((*honest)->context_id(), first);
}

TEST_F(AgreeHostile, AnIdThatIsInUseMakesNoSecondCommunicator) {
  const auto first = duplicate_with(id_of(1));
  ASSERT_TRUE(first);
  const auto second = duplicate_with(id_of(1));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().error_class(), ErrorClass::intern);
  EXPECT_THAT(second.error().text(), HasSubstr("the id of a communicator that there is"));
  say((*first)->context_id(), 0, 3, 5);
  int got = 0;
  Request* receive = engine->start_receive((*first)->context(), 0, 3, Payload::of(&got, sizeof got));
  progress();
  EXPECT_TRUE(receive->complete);
  EXPECT_EQ(got, 5);
  engine->free(receive);
}

TEST_F(AgreeHostile, NoProposalAtAllIsAnErrorThatSaysWhoHasNone) {
  const auto made = duplicate_with(ContextIds::none);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text(), HasSubstr("process 1 has no ids for communicators left"));
}

TEST_F(AgreeHostile, ASplitChecksTheProposalOfItsFirstMember) {
  const auto split_with = [&](const SplitEntry& theirs) {
    say(comm->context_id() + 1, 0, agree_local_tag, theirs);
    return split(*comm, 4, 0);
  };
  EXPECT_FALSE(split_with({4, 0, Engine::world_context}));
  EXPECT_FALSE(split_with({4, 0, id_of(0)}));
  const auto alone = split_with({5, 0, Engine::world_context});
  ASSERT_TRUE(alone) << "of its own proposal";
  EXPECT_EQ((*alone)->size(), 1);
  const auto both = split_with({4, 0, id_of(1)});
  ASSERT_TRUE(both);
  EXPECT_EQ((*both)->size(), 2);
  expect_usable();
}

TEST_F(AgreeHostile, ALaterDuplicateChecksTheProposalToo) {
  for (const ContextId id : {Engine::world_context, id_of(0), id_of(1)}) {
    Duplication duplication(*comm);
    duplication.begin();
    say(comm->context_id() + 1, 0, nonblocking_tag + static_cast<int>(comm->nonblocking_lanes - 1), id);
    progress();
    ASSERT_TRUE(duplication.ready());
    EXPECT_EQ(duplication.make().has_value(), id == id_of(1));
  }
}

TEST_F(AgreeHostile, TheOtherGroupOfAnIntercommunicatorIsWhatItCanBe) {
  const Ref<Group> self = make_ref<Group>(std::vector<PeerId>{0});
  const auto local = Communicator::make(*engine, self, Engine::self_context);
  /// As what the leader of the other side writes.
  struct Offer {
    ContextId context;
    std::uint32_t members;
    PeerId leader;
    std::int32_t high, error_class;
  };
  const auto join_with = [&](const Offer& offer, const std::vector<PeerId>& members) {
    say(comm->context_id() + 1, 0, agree_user_tag, offer);
    std::array<PeerId, 2> list{};
    std::ranges::copy(members, list.begin());
    if (members.size() == 1) say(comm->context_id() + 1, 0, agree_user_tag, list[0]);
    if (members.size() == 2) say(comm->context_id() + 1, 0, agree_user_tag, list);
    return join(*local, 0, comm.get(), 0, 0);
  };
  EXPECT_FALSE(join_with({id_of(1), 1, 1, 0, 0}, {7})) << "no process of this job";
  EXPECT_FALSE(join_with({id_of(1), 2, 1, 0, 0}, {1, 1})) << "twice";
  EXPECT_FALSE(join_with({id_of(1), 1, 1, 0, 0}, {0})) << "this process itself";
  EXPECT_FALSE(join_with({id_of(1), 1, 0, 0, 0}, {1})) << "led by another than who speaks";
  EXPECT_FALSE(join_with({id_of(1), 0, 1, 0, 0}, {0})) << "of nobody";
  const auto made = join_with({id_of(1), 1, 1, 0, 0}, {1});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ((*made)->remote_size(), 1);
}

TEST(ContextIds, EndWhereTheirCounterDoes) {
  const std::uint64_t last = (std::uint64_t{1} << (ContextIds::counter_bits - 1)) - 1;
  ContextIds ids(6, last - 1);
  const ContextId before = ids.take(), end = ids.take();
  EXPECT_EQ(before + 2, end);
  EXPECT_TRUE(ContextIds::is_of(end, 6));
  EXPECT_FALSE(ContextIds::is_of(end + 2, 6));
  EXPECT_FALSE(ContextIds::is_of(end + 1, 6)) << "belongs to the one before";
  EXPECT_FALSE(ContextIds::is_of(end, 7));
  EXPECT_TRUE(ids.has_given(end));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(ids.take(), ContextIds::none);
  EXPECT_FALSE(ContextIds(6, last).has_given(end)) << "not yet";
  EXPECT_EQ(ContextIds(ContextIds::most_ranks - 1).take() >> ContextIds::counter_bits,
            ContextIds::most_ranks);
}

TEST(ContextIds, WhenTheyHaveRunOutEveryMemberHearsAnErrorAndNothingElseSuffers) {
  using testing_ranks::Conditions, testing_ranks::Rank;
  testing_ranks::run(3, Conditions{""}, [](const Rank& rank) {
    const auto comm =
        Communicator::make(rank.engine, make_ref<Group>(std::vector<PeerId>{0, 1, 2}), Engine::world_context);
    // Rank 0 has two left, rank 1 more than enough.
    if (rank.id() == 0) rank.engine.context_ids() = ContextIds(0, (std::uint64_t{1} << 39) - 2);
    std::vector<Ref<Communicator>> made;
    for (int i = 0; i < 4; ++i) {
      auto copy = duplicate(*comm);
      ASSERT_EQ(copy.has_value(), i < 2) << i;
      if (copy)
        made.push_back(std::move(*copy));
      else
        EXPECT_EQ(copy.error().error_class(), ErrorClass::other);
    }
    EXPECT_NE(made[0]->context_id(), made[1]->context_id());
    // Rank 1 proposes where it comes first.
    const auto reversed = split(*comm, 0, -rank.id());
    ASSERT_TRUE(reversed) << reversed.error().text();
    EXPECT_FALSE(split(*comm, 0, rank.id())) << "rank 0 proposes";
    Duplication later(**reversed);
    later.begin();
    rank.engine.wait_for([&] { return later.ready(); });
    EXPECT_TRUE(later.make());
  });
}

}  // namespace
}  // namespace isthmus::coll::hostile_test
