#include "launch/meeting/meeting.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <thread>

#include "fake_key_values.hpp"
#include "launch/visit/broker.hpp"

namespace isthmus::launch::meeting_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ranks = std::vector<std::uint32_t>;
using Outcome = Result<Met>;

/// What differs between the ranks of a meeting.
struct Guest {
  Place place;
  Settings settings;
  std::optional<SharedRegion> inherited;
  std::function<Outcome(FakeKeyValues&, Guest&)> behave;  ///< instead of meeting
};

Guest guest() {
  Guest guest{.place = Place::here().value(), .settings = {}, .inherited = {}, .behave = {}};
  guest.settings.warn = false;
  return guest;
}

std::vector<Guest> guests(std::uint32_t count) {
  std::vector<Guest> result;
  for (std::uint32_t rank = 0; rank < count; ++rank)
    result.push_back(guest());
  return result;
}

/// All at once, each in a thread.
std::vector<Outcome> hold(std::vector<Guest>& guests, std::span<const Way> ways = all_ways()) {
  FakeSpace space(static_cast<std::uint32_t>(guests.size()));
  std::vector<Outcome> outcomes;
  for (std::size_t rank = 0; rank < guests.size(); ++rank)
    outcomes.emplace_back(fail(ErrorClass::other, "nothing yet"));
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < guests.size(); ++rank)
      threads.emplace_back([&, rank] {
        FakeKeyValues launcher(space, rank);
        Guest& mine = guests[rank];
        outcomes[rank] = mine.behave ? mine.behave(launcher, mine)
                                     : meet(launcher, mine.settings, mine.place,
                                            std::exchange(mine.inherited, std::nullopt), ways);
        space.leave();
      });
  }
  return outcomes;
}

/// That those of `ranks` are members of one region, in this order, and do share its memory.
void expect_together(const std::vector<Outcome>& outcomes, const Ranks& ranks) {
  for (std::uint32_t slot = 0; slot < ranks.size(); ++slot) {
    const Outcome& outcome = outcomes[ranks[slot]];
    ASSERT_TRUE(outcome) << "rank " << ranks[slot] << ": " << outcome.error().text();
    EXPECT_EQ(outcome->members, ranks);
    EXPECT_EQ(outcome->slot, slot);
    EXPECT_EQ(outcome->region.view.world(), outcomes.size());
    EXPECT_GE(outcome->region.view.slots(), ranks.size());
    outcome->region.view.block(slot).connections.store(100 + slot);
  }
  for (const std::uint32_t reader : ranks)
    for (std::uint32_t slot = 0; slot < ranks.size(); ++slot) {
      const wire::RegionView& view = outcomes[reader]->region.view;
      EXPECT_EQ(view.block(slot).connections.load(), 100 + slot);
      EXPECT_EQ(view.block(slot).place.rank, ranks[slot]);
      EXPECT_EQ(view.block(slot).place.core, -1);
      EXPECT_EQ(view.roster(ranks[slot]).load(), wire::RosterState::joined);
    }
}

/// `way`, between guests whose places name the same host.
bool within_reach(const Approach& approach) {
  return approach.mine.host == approach.theirs.host || approach.mine.host == "between" ||
         approach.theirs.host == "between";
}
constexpr std::array<Way, 1> within_host{
    {{"within the host", [](const Approach& approach) -> Result<SharedRegion> {
        if (!within_reach(approach)) return fail(ErrorClass::other, "out of reach");
        return all_ways()[0].enter(approach);
      }}}};

class Folder {
 public:
  Folder() { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { EXPECT_EQ(::rmdir(path_.c_str()), 0) << "something is left in " << path_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "isthmus-meeting-XXXXXX";
};

/// As if each had a network namespace of its own.
void part_networks(std::vector<Guest>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    all[rank].place.namespaces[static_cast<std::size_t>(Namespace::net)] = 1000 + rank;
}

class MeetingOf : public testing::TestWithParam<std::uint32_t> {
 protected:
  [[nodiscard]] Ranks everybody() const {
    Ranks ranks(GetParam());
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank)
      ranks[rank] = rank;
    return ranks;
  }
};

TEST_P(MeetingOf, ProcessesThroughAbstractSockets) {
  auto all = guests(GetParam());
  expect_together(hold(all, all_ways().subspan(0, 1)), everybody());
}

TEST_P(MeetingOf, ProcessesThroughAFolder) {
  const Folder folder;
  auto all = guests(GetParam());
  part_networks(all);
  for (Guest& one : all)
    one.settings.rendezvous_dir = folder.path();
  expect_together(hold(all, all_ways().subspan(1, 1)), everybody());
}

TEST_P(MeetingOf, ProcessesThroughDevShmWhereNothingIsLeft) {
  auto all = guests(GetParam());
  part_networks(all);
  expect_together(hold(all, all_ways().subspan(2, 1)), everybody());
  for (const Guest& one : all)
    EXPECT_FALSE(
        std::filesystem::exists(BrokerAddress::in_folder("/dev/shm", one.place.socket).value().path()));
}

INSTANTIATE_TEST_SUITE_P(Meeting, MeetingOf, testing::Values(1, 2, 3, 5, 8));

TEST(Meeting, LeavesThoseApartWhoDoNotReachEachOtherAndSaysWhy) {
  auto all = guests(5);
  for (const std::size_t rank : {1U, 4U})
    all[rank].place.host = "other";
  const auto outcomes = hold(all, within_host);
  expect_together(outcomes, {0, 2, 3});
  expect_together(outcomes, {1, 4});
  ASSERT_EQ(outcomes[1]->refusals.size(), 3U);
  EXPECT_EQ(outcomes[1]->refusals[0].rank, 0U);
  EXPECT_THAT(outcomes[1]->refusals[0].text, HasSubstr("within the host: out of reach"));
  EXPECT_EQ(outcomes[0]->refusals.size(), 2U);
  EXPECT_NE(outcomes[0]->region.mapping->memory().data(), outcomes[1]->region.mapping->memory().data());
}

TEST(Meeting, HandsARegionOnToThoseWhoDoNotReachItsFounder) {
  auto all = guests(4);
  all[0].place.host = "left";
  all[1].place.host = "between";
  all[2].place.host = "right";
  all[3].place.host = "right";
  expect_together(hold(all, within_host), {0, 1, 2, 3});
}

TEST(Meeting, TellsClonesWithEqualBootIdsApart) {
  auto all = guests(2);
  constexpr std::array<Way, 1> never{
      {{"nothing", [](const Approach&) -> Result<SharedRegion> { return fail(ErrorClass::other, "no"); }}}};
  const auto outcomes = hold(all, never);
  expect_together(outcomes, {0});
  expect_together(outcomes, {1});
}

TEST(Meeting, DoesNotTryAcrossKernels) {
  auto all = guests(4);
  all[1].place.boot[0] ^= 1;
  all[2].place.boot[0] ^= 1;
  const auto outcomes = hold(all);
  expect_together(outcomes, {0, 3});
  expect_together(outcomes, {1, 2});
  EXPECT_THAT(outcomes[0]->refusals, IsEmpty());
}

TEST(Meeting, RefusesARendezvousFolderThatIsNoneByName) {
  auto all = guests(2);
  for (Guest& one : all)
    one.settings.rendezvous_dir = "/no/such/folder";
  for (const Outcome& outcome : hold(all)) {
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().text(), HasSubstr("ISTHMUS_RENDEZVOUS_DIR='/no/such/folder'"));
  }
}

TEST(Meeting, GoesOnWithoutOneThatHasDied) {
  auto all = guests(4);
  all[0].behave = [](FakeKeyValues& launcher, Guest& mine) -> Outcome {
    auto broker = Broker::open(mine.place.socket, 0);
    EXPECT_TRUE(launcher.put("place", mine.place.encode()));
    EXPECT_TRUE(launcher.fence());
    broker->reset();
    return fail(ErrorClass::other, "dead");
  };
  expect_together(hold(all), {1, 2, 3});
}

/// Rank 0 of a meeting in which `behind_the_socket` answers instead of it.
std::vector<Outcome> hold_with_impostor(const std::function<void(Broker&, const Place&)>& prepare) {
  auto all = guests(3);
  all[0].behave = [&](FakeKeyValues& launcher, Guest& mine) -> Outcome {
    auto broker = Broker::open(mine.place.socket, 0);
    EXPECT_TRUE(launcher.put("place", mine.place.encode()));
    EXPECT_TRUE(launcher.fence());
    prepare(**broker, mine.place);
    EXPECT_TRUE(launcher.fence());
    return fail(ErrorClass::other, "an impostor");
  };
  return hold(all);
}

TEST(Meeting, DoesWithoutOneWhoKnowsAnotherKey) {
  const auto outcomes = hold_with_impostor([](Broker& broker, const Place& place) {
    wire::JobKey wrong = place.key;
    wrong[0] ^= 1;
    broker.admit(wrong);
  });
  expect_together(outcomes, {1, 2});
  EXPECT_THAT(outcomes[1]->refusals.at(0).text, HasSubstr("hangs up"));
}

TEST(Meeting, TakesNothingThatIsNoRegion) {
  const auto outcomes = hold_with_impostor([](Broker& broker, const Place& place) {
    broker.admit(place.key);
    broker.offer_region(UniqueFd(::memfd_create("no-region", MFD_CLOEXEC)));
  });
  expect_together(outcomes, {1, 2});
  EXPECT_THAT(outcomes[2]->refusals.at(0).text, HasSubstr("sealed size"));
}

TEST(Meeting, TakesNoRegionOfAnotherJob) {
  const auto outcomes = hold_with_impostor([](Broker& broker, const Place& place) {
    broker.admit(place.key);
    auto region = make_region(wire::RegionShape::of(3, {64, 8192}), {.key = {9}});
    ASSERT_TRUE(region);
    broker.offer_region(std::move(region->fd));
  });
  expect_together(outcomes, {1, 2});
  EXPECT_THAT(outcomes[1]->refusals.at(0).text, HasSubstr("another job"));
}

TEST(Meeting, NamesTheRankWhosePlaceIsGarbage) {
  auto all = guests(2);
  all[1].behave = [](FakeKeyValues& launcher, Guest&) -> Outcome {
    EXPECT_TRUE(launcher.put("place", "isth\1garbage"));
    EXPECT_TRUE(launcher.fence());
    return fail(ErrorClass::other, "broken");
  };
  const auto outcomes = hold(all);
  ASSERT_FALSE(outcomes[0]);
  EXPECT_THAT(outcomes[0].error().text(), HasSubstr("rank 1"));
}

TEST(Meeting, NoticesWhatCannotStandInARoster) {
  auto all = guests(2);
  all[1].place.boot[0] ^= 1;
  all.push_back(guest());
  constexpr std::array<Way, 1> scribbling{{{"abstract socket", [](const Approach& approach) {
                                              auto region = all_ways()[0].enter(approach);
                                              region->view.roster(1).store(wire::RosterState::joined);
                                              return region;
                                            }}}};
  const auto outcomes = hold(all, scribbling);
  expect_together(outcomes, {1});
  for (const std::size_t rank : {0U, 2U}) {
    ASSERT_FALSE(outcomes[rank]);
    EXPECT_THAT(outcomes[rank].error().text(), HasSubstr("something else writes"));
  }
}

TEST(Meeting, SpinsWhereTheMembersHaveACoreEachAndSleepsWhereNot) {
  for (const bool enough : {true, false}) {
    auto all = guests(3);
    for (std::size_t rank = 0; rank < 3; ++rank)
      all[rank].place.cpus = CpuSet::parse(enough && rank == 2 ? "0-2" : "0-1").value();
    const auto outcomes = hold(all);
    expect_together(outcomes, {0, 1, 2});
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome->region.view.header().cores, enough ? 3U : 2U);
      EXPECT_EQ(outcome->region.view.header().idle,
                enough ? wire::IdlePolicy::spin : wire::IdlePolicy::sleep);
    }
  }
}

/// As an mpiexec of several hosts makes it for its own ranks.
SharedRegion agent_region(const Ranks& ranks, std::uint32_t world, std::uint8_t id) {
  auto region = make_region(
      wire::RegionShape::of(static_cast<std::uint32_t>(ranks.size()), world, {64, 8192}), {.key = {id}});
  EXPECT_TRUE(region);
  for (std::uint32_t slot = 0; slot < ranks.size(); ++slot)
    region->view.block(slot).place.rank = ranks[slot];
  return std::move(*region);
}

SharedRegion inherit(const SharedRegion& region) {
  auto opened = open_region(::dup(region.fd.get()));
  EXPECT_TRUE(opened);
  return std::move(*opened);
}

TEST(Meeting, TakesTheInheritedRegionWhereAllHaveTheSame) {
  const SharedRegion left = agent_region({0, 1}, 5, 1);
  const SharedRegion right = agent_region({2, 3, 4}, 5, 2);
  auto all = guests(5);
  for (std::size_t rank = 0; rank < 5; ++rank) {
    all[rank].inherited = inherit(rank < 2 ? left : right);
    if (rank >= 2) all[rank].place.boot[0] ^= 1;
  }
  const auto outcomes = hold(all);
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    ASSERT_TRUE(outcomes[rank]);
    EXPECT_TRUE(outcomes[rank]->inherited);
    EXPECT_EQ(outcomes[rank]->members, rank < 2 ? (Ranks{0, 1}) : (Ranks{2, 3, 4}));
    EXPECT_EQ(outcomes[rank]->slot, rank < 2 ? rank : rank - 2);
  }
}

TEST(Meeting, JoinsTheRanksOfSeveralAgentsOfOneMachine) {
  const SharedRegion left = agent_region({0, 1}, 4, 1);
  const SharedRegion right = agent_region({2, 3}, 4, 2);
  auto all = guests(4);
  for (std::size_t rank = 0; rank < 4; ++rank)
    all[rank].inherited = inherit(rank < 2 ? left : right);
  expect_together(hold(all), {0, 1, 2, 3});
}

TEST(Meeting, KeepsInheritedRegionsWhereMeetingWouldPartTheirRanks) {
  const SharedRegion left = agent_region({0, 1}, 4, 1);
  const SharedRegion right = agent_region({2, 3}, 4, 2);
  auto all = guests(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    all[rank].inherited = inherit(rank < 2 ? left : right);
    all[rank].place.host = rank % 2 == 0 ? "even" : "odd";  // 0 reaches 2, but not 1
  }
  const auto outcomes = hold(all, within_host);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcomes[rank]);
    EXPECT_TRUE(outcomes[rank]->inherited);
    EXPECT_EQ(outcomes[rank]->members, rank < 2 ? (Ranks{0, 1}) : (Ranks{2, 3}));
  }
}

TEST(InheritedMembers, AreRefusedUnlessTheyAscendWithinTheJob) {
  EXPECT_THAT(inherited_members(agent_region({1, 3}, 4, 1).view).value(), ElementsAre(1, 3));
  for (const Ranks& ranks : {Ranks{3, 1}, Ranks{1, 1}, Ranks{1, 4}})
    EXPECT_FALSE(inherited_members(agent_region(ranks, 4, 1).view));
}

}  // namespace
}  // namespace isthmus::launch::meeting_test
