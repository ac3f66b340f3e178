// All members of a team go the same way in each call, however far they are ahead of each other, and learn.
#include "coll/team/live_calls.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "coll/call/coll.hpp"
#include "coll/call/host.hpp"
#include "coll_data.hpp"
#include "route/live_plans.hpp"
#include "sanitizers.hpp"
#include "team_ranks.hpp"

namespace isthmus::coll::live_calls_test {
namespace {

using namespace testing_data;
using enum TeamWay;

std::uint64_t now = 0;
std::uint64_t clock_of_test() noexcept {
  return now;
}

/// The members of a team in one thread, whose turns come by chance. A member begins a step when all others
/// have finished the one `depth` before, as far as it knows, and no sooner: that is all that `Team` promises.
class Members {
 public:
  struct Made {
    Collective collective;
    std::uint64_t bytes;
  };

  Members(int count, std::vector<Made> calls, std::uint32_t seed,
          std::uint64_t eager_limit = LiveCalls::most_bytes)
      : calls_(std::move(calls)),
        layout_(count),
        memory_(layout_.bytes() + wire::cache_line),
        words_(wire::call_lesson_words),
        random_(seed) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    area_ = std::make_unique<Area>(layout_, memory_.data() + (wire::cache_line - begin % wire::cache_line));
    taken_.resize(calls_.size());
    mapped_behind.resize(static_cast<std::size_t>(count));
    over_messages_.resize(static_cast<std::size_t>(count));
    for (int rank = 0; rank < count; ++rank)
      members_.push_back({.live = std::make_unique<LiveCalls>(
                              LiveCalls::Member{.rank = rank,
                                                .size = count,
                                                .forced = {},
                                                .shared = SharedCallLessons(words_),
                                                .messages = {},
                                                .eager_limit = eager_limit,
                                                .map_rings =
                                                    [this, rank](std::uint64_t bytes) {
                                                      const auto at = static_cast<std::size_t>(rank);
                                                      mapped_behind[at].emplace_back(over_messages_[at],
                                                                                     bytes);
                                                    }},
                              clock_of_test)});
  }

  /// `cost(way, call)`: ticks of a call.
  template <class Cost>
  void run(const Cost& cost) {
    while (std::ranges::any_of(members_, [&](const Member& each) { return each.call < calls_.size(); }))
      advance(random_() % members_.size(), cost);
  }
  [[nodiscard]] const CallChoice* choice_of(const Made& made) const {
    return members_[0].live->choice_of(made.collective, made.bytes);
  }
  /// Of each call, by all members.
  [[nodiscard]] const std::vector<std::vector<TeamWay>>& taken() const { return taken_; }

  /// Of each member: behind how many calls over messages it has had its rings mapped, and how much of them.
  std::vector<std::vector<std::pair<int, std::uint64_t>>> mapped_behind;

 private:
  struct Member {
    std::unique_ptr<LiveCalls> live;
    std::size_t call = 0;     ///< that it is in, or comes next
    std::uint64_t step = 0;   ///< the last that it has finished
    std::uint64_t known = 0;  ///< all others have finished
    std::uint64_t rest = 0;   ///< steps of the call it is in
    std::uint64_t ends = 0;   ///< when it will have copied
  };

  template <class Cost>
  void advance(std::size_t rank, const Cost& cost) {
    Member& member = members_[rank];
    ++now;
    if (member.call == calls_.size()) return;
    if (member.step + 1 > member.known + depth) {
      member.known = std::ranges::min_element(members_, {}, &Member::step)->step;
      if (member.step + 1 > member.known + depth) return;
    }
    const Made& made = calls_[member.call];
    if (member.rest == 0) {
      const Question question{.collective = made.collective,
                              .ranks = static_cast<int>(members_.size()),
                              .bytes = made.bytes,
                              .shared = true,
                              .own_cores = true,
                              .direct = true};
      const TeamWays possible = ways_of(question, {.elementwise = true, .in_order = true});
      const TeamWay assumed = *way_of(select(question), made.collective);
      const TeamWay way = member.live->begin(*area_, {.next = member.step + 1, .finished = member.known},
                                             question, assumed, possible);
      taken_[member.call].push_back(way);
      over_messages_[rank] += way == messages ? 1 : 0;
      member.rest = way == staged ? (made.bytes + slot_bytes - 1) / slot_bytes : 1;
      now += cost(way, member.call);
    }
    ++member.step;
    if (--member.rest > 0) return;
    member.live->end(*area_);
    ++member.call;
  }

  std::vector<Made> calls_;
  AreaLayout layout_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Area> area_;
  std::vector<std::atomic<std::uint64_t>> words_;
  std::vector<Member> members_;
  std::vector<std::vector<TeamWay>> taken_;
  std::vector<int> over_messages_;
  std::minstd_rand random_;
};

TEST(LiveCalls, HaveTheRingsMappedBehindTheFirstCallOverMessages) {
  for (const int count : {2, 3}) {
    std::vector<Members::Made> made(200, {Collective::bcast, 8192});
    made.insert(made.end(), 200, {Collective::bcast, 65536});
    made.insert(made.end(), 200, {Collective::bcast, 4096});
    Members members(count, made, 7);
    members.run([](TeamWay, std::size_t) { return 100; });
    for (const auto& behind : members.mapped_behind) {
      ASSERT_EQ(behind.size(), 2U) << count << ": what longer calls have had mapped does for shorter ones";
      EXPECT_EQ(behind[0], std::pair(1, LiveCalls::mapped_messages * 8192));
      EXPECT_EQ(behind[1].second, LiveCalls::mapped_messages * 65536);
    }
  }
}

TEST(LiveCalls, HaveNoRingsMappedWhereNoCallGoesOverMessages) {
  Members members(2, std::vector<Members::Made>(200, {Collective::allreduce, 65536}), 7);
  members.run([](TeamWay, std::size_t) { return 100; });
  for (const auto& behind : members.mapped_behind)
    EXPECT_TRUE(behind.empty());
}

std::vector<Members::Made> mixed(std::size_t count, std::uint32_t seed) {
  std::minstd_rand random(seed);
  const std::vector<Members::Made> kinds{{Collective::bcast, 4096},    {Collective::bcast, 65536},
                                         {Collective::bcast, 300'000}, {Collective::allgather, 8000},
                                         {Collective::alltoall, 2000}, {Collective::allreduce, 16384},
                                         {Collective::gather, 5000}};
  std::vector<Members::Made> calls;
  while (calls.size() < count) {
    const Members::Made& kind = kinds[random() % kinds.size()];
    for (std::size_t i = random() % 100; i > 0 && calls.size() < count; --i)
      calls.push_back(kind);
  }
  return calls;
}

TEST(LiveCalls, NoTwoMembersGoDifferentWays) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    for (const int count : {2, 3, 7}) {
      Members members(count, mixed(4000, seed), seed);
      // Costs that change all the time, so that choices do.
      members.run([](TeamWay way, std::size_t call) {
        return 100 + (static_cast<std::size_t>(way) + call / 300) % 5 * 200;
      });
      std::size_t several = 0;
      for (std::size_t call = 0; call < members.taken().size(); ++call) {
        const auto& ways = members.taken()[call];
        ASSERT_EQ(ways.size(), static_cast<std::size_t>(count));
        for (const TeamWay way : ways)
          ASSERT_EQ(way, ways[0]) << "call " << call << " of " << count << " members, seed " << seed;
        several += call > 0 && ways[0] != members.taken()[call - 1][0] ? 1 : 0;
      }
      EXPECT_GT(several, 100U);
    }
  }
}

TEST(LiveCalls, TheFastestIsFound) {
  const Members::Made made{Collective::bcast, 65536};
  Members members(3, std::vector(200, made), 5);
  members.run([](TeamWay way, std::size_t) { return way == messages ? 1000 : 3000; });
  ASSERT_TRUE(members.choice_of(made));
  EXPECT_EQ(members.choice_of(made)->way(), messages);
  for (std::size_t call = 120; call < 200; ++call)
    EXPECT_EQ(members.taken()[call][0], messages) << call;
}

/// Longer messages than go with their envelope are judged when they have learned their own way.
TEST(LiveCalls, AreNotJudgedByMessagesThatStillTryWays) {
  const Members::Made made{Collective::bcast, 65536};
  for (const std::uint64_t eager_limit : {made.bytes - 1, made.bytes}) {
    Members members(3, std::vector(300, made), 5, eager_limit);
    std::set<std::size_t> over_messages;
    members.run([&](TeamWay way, std::size_t call) {
      if (way != messages) return way == direct ? 2000 : 3000;
      over_messages.insert(call);
      return over_messages.size() <= 36 ? 2900 : 1000;
    });
    ASSERT_TRUE(members.choice_of(made));
    EXPECT_EQ(members.choice_of(made)->way(), eager_limit < made.bytes ? messages : direct) << eager_limit;
  }
}

TEST(LiveCalls, NewMessagesSettleLongerThanThoseThatOthersHaveLearned) {
  std::vector<std::atomic<std::uint64_t>> words(wire::lesson_words);
  const SharedLessons learned(words);
  EXPECT_EQ(LiveCalls::settling_of(16384, 16384, learned, false), 0) << "they go with their envelope";
  const int unknown = LiveCalls::settling_of(65536, 16384, learned, false);
  learned.write({.far = false, .all_ways = true, .many = false, .size_class = LivePlans::class_of(65536)},
                {.way = LongWay::stream, .ticks_per_byte = 0.1});
  EXPECT_GT(LiveCalls::settling_of(65536, 16384, learned, false), 0);
  EXPECT_LT(LiveCalls::settling_of(65536, 16384, learned, false), unknown);
  EXPECT_EQ(LiveCalls::settling_of(65536, 16384, learned, true), unknown)
      << "those of other sockets are others";
}

TEST(LiveCalls, ALateMemberIsNoCost) {
  const Members::Made made{Collective::allgather, 65536};
  now = 1;
  AreaLayout layout(2);
  std::vector<std::byte> memory(layout.bytes() + wire::cache_line);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const Area area(layout, memory.data() + (wire::cache_line - begin % wire::cache_line));
  LiveCalls first({.rank = 0, .size = 2, .forced = {}, .shared = {}}, clock_of_test);
  LiveCalls second({.rank = 1, .size = 2, .forced = {}, .shared = {}}, clock_of_test);
  const Question question{.collective = made.collective,
                          .ranks = 2,
                          .bytes = made.bytes,
                          .shared = true,
                          .own_cores = true,
                          .direct = true};
  const TeamWays possible = ways_of(question, {});
  for (std::uint64_t call = 1; call <= 400; ++call) {
    const LiveCalls::Steps steps{.next = call, .finished = call - 1};
    first.begin(area, steps, question, direct, possible);
    now += 50'000'000;  // the other one computes
    const TeamWay way = second.begin(area, steps, question, direct, possible);
    now += way == messages ? 131'072 : 655'360;
    first.end(area);
    second.end(area);
  }
  ASSERT_TRUE(first.choice_of(made.collective, made.bytes));
  EXPECT_EQ(first.choice_of(made.collective, made.bytes)->way(), messages);
  EXPECT_EQ(first.choice_of(made.collective, made.bytes)->predicted(direct), 10);
  EXPECT_EQ(first.choice_of(made.collective, made.bytes)->predicted(messages), 2);
}

TEST(LiveCalls, LessonsAreSharedWithOtherTeams) {
  std::vector<std::atomic<std::uint64_t>> words(wire::call_lesson_words);
  const auto choice_after = [&](std::uint64_t calls, int members) {
    AreaLayout layout(members);
    std::vector<std::byte> memory(layout.bytes() + wire::cache_line);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
    const Area area(layout, memory.data() + (wire::cache_line - begin % wire::cache_line));
    std::vector<std::unique_ptr<LiveCalls>> team;
    for (int rank = 0; rank < members; ++rank)
      team.push_back(std::make_unique<LiveCalls>(
          LiveCalls::Member{.rank = rank, .size = members, .forced = {}, .shared = SharedCallLessons(words)},
          clock_of_test));
    const Question question{.collective = Collective::bcast,
                            .ranks = members,
                            .bytes = 65536,
                            .shared = true,
                            .own_cores = true,
                            .direct = true};
    for (std::uint64_t call = 1; call <= calls; ++call) {
      TeamWay way{};
      for (const auto& each : team)
        way =
            each->begin(area, {.next = call, .finished = call - 1}, question, direct, ways_of(question, {}));
      now += way == messages ? 100'000 : 200'000;
      for (const auto& each : team)
        each->end(area);
    }
    const CallChoice* const choice = team[0]->choice_of(Collective::bcast, 65536);
    return std::pair(choice->way(), choice->is_told());
  };
  EXPECT_EQ(choice_after(30, 3), std::pair(direct, false));
  EXPECT_EQ(choice_after(200, 3), std::pair(messages, false));
  const std::size_t call_class = LiveCalls::class_of(Collective::bcast, 65536);
  EXPECT_EQ(SharedCallLessons(words).read_in_lanes(LiveCalls::kind_of(call_class, 3, false)),
            static_cast<std::uint8_t>(messages));
  EXPECT_EQ(choice_after(30, 4), std::pair(messages, true)) << "three and four members are a kind";
  EXPECT_EQ(choice_after(30, 2), std::pair(direct, false));
  for (std::atomic<std::uint64_t>& word : words)
    word.store(0xffff'ffff'ffff'ffff);
  EXPECT_EQ(choice_after(30, 3), std::pair(direct, false)) << "rubbish is no lesson";
  EXPECT_FALSE(SharedCallLessons(words).read_in_lanes(LiveCalls::kind_of(call_class, 8, false)));
}

TEST(LiveCalls, ClassesAreTwoForEachPowerOfTwo) {
  EXPECT_FALSE(LiveCalls::covers(1024));
  EXPECT_TRUE(LiveCalls::covers(1025) && LiveCalls::covers(64 << 20));
  EXPECT_FALSE(LiveCalls::covers((64 << 20) + 1));
  std::size_t last = LiveCalls::class_of(Collective::bcast, 1025);
  EXPECT_EQ(last, 0U);
  for (std::uint64_t bytes = 1026; bytes <= 64 << 20; bytes += 1 + bytes / 50) {
    const std::size_t found = LiveCalls::class_of(Collective::bcast, bytes);
    EXPECT_TRUE(found == last || found == last + 1) << bytes;
    EXPECT_LE(bytes, LiveCalls::most_of(found));
    EXPECT_TRUE(found == 0 || bytes > LiveCalls::most_of(found - 1)) << bytes;
    last = found;
  }
  EXPECT_EQ(LiveCalls::class_of(Collective::bcast, 16384) + 1, LiveCalls::class_of(Collective::bcast, 16385));
  EXPECT_EQ(LiveCalls::class_of(Collective::reduce_scatter, 64 << 20), call_classes - 1);
}

/// Pages of the memory of `layout` that have been used.
std::size_t used_pages(const AreaLayout& layout, std::byte* memory) {
  std::vector<unsigned char> used((layout.bytes() + 4095) / 4096);
  EXPECT_EQ(::mincore(memory, layout.bytes(), used.data()), 0);
  return static_cast<std::size_t>(std::ranges::count_if(used, [](unsigned char each) { return each & 1; }));
}

TEST(LiveCalls, NoWayPaysForPagesThatAreUsedForTheFirstTime) {
  const AreaLayout layout(3);
  void* const mapped =
      ::mmap(nullptr, layout.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const memory = static_cast<std::byte*>(mapped);
  const Area area(layout, memory);
  LiveCalls live({.rank = 1, .size = 3, .forced = {}, .shared = {}}, clock_of_test);
  const Question question{.collective = Collective::bcast,
                          .ranks = 3,
                          .bytes = 4096,
                          .shared = true,
                          .own_cores = true,
                          .direct = true};
  const TeamWays possible = ways_of(question, {});
  live.begin(area, {.next = 1, .finished = 0}, question, flat, possible);
  live.end(area);
  const std::size_t control = (layout.control_bytes() + 4095) / 4096;
  EXPECT_LE(used_pages(layout, memory), control);
  const CallSchedule trial{.from = 2, .before = flat, .after = flat, .turn = 4, .tried = possible};
  area.schedule(LiveCalls::class_of(Collective::bcast, 4096)).store(trial.packed());
  live.begin(area, {.next = 2, .finished = 1}, question, flat, possible);
  const std::size_t of_short = used_pages(layout, memory);
  EXPECT_GE(of_short + control, layout.bytes() / 4096 * 3 / 4) << "three blocks of 4 KiB in each slot of 16";
  EXPECT_LT(of_short, layout.bytes() / 4096);
  live.end(area);
  Question longer = question;
  longer.bytes = 16384;
  area.schedule(LiveCalls::class_of(Collective::bcast, 16384))
      .store(CallSchedule{.from = 3, .before = flat, .after = flat, .turn = 4, .tried = possible}.packed());
  live.begin(area, {.next = 3, .finished = 2}, longer, flat, possible);
  EXPECT_GE(used_pages(layout, memory) + control, layout.bytes() / 4096);
  live.end(area);
  ::munmap(mapped, layout.bytes());
}

// --- whole collectives, on ranks that spin

constexpr testing_ranks::Conditions spinning{"Spin", {64, 64 * 1024}, wire::IdlePolicy::spin};

template <class Body>
void run_members(std::uint32_t ranks, const Body& body) {
  const auto run = [&](Communicator& comm, const Team& team) {
    EXPECT_TRUE(team.has_live()) << "nothing would be learned";
    EXPECT_GT(comm.engine().eager_limit(), 0U) << "what settings leave open is known";
    body(comm);
  };
  testing_team::run_team(ranks, run, spinning);
}

TEST(LiveCollectives, DataArriveWhateverWayTheyTake) {
  run_members(3, [](Communicator& comm) {
    const int n = comm.size();
    std::minstd_rand random(7);
    std::size_t wrong = 0;
    // Enough for a trial of each class; under a sanitizer that takes minutes, and some turns have to do.
    const int rounds = under_thread_sanitizer ? 60 : 400;
    for (int i = 0; i < rounds; ++i) {
      const int root = static_cast<int>(random() % 3);
      // Of three classes, so that each has its trial.
      const std::int64_t count = (i % 3 == 0   ? 500
                                  : i % 3 == 1 ? 4000
                                               : 20'000) -
                                 static_cast<int>(random() % 60);
      const Ints sent = data(root, i, count);
      Ints buffer = comm.rank() == root ? sent : Ints(sent.size(), -1);
      expect_done(host::bcast(buffer.data(), count, int_type(), root, comm));
      wrong += buffer != sent ? 1 : 0;

      const Ints mine = data(comm.rank(), i, count);
      Ints all(mine.size() * static_cast<std::size_t>(n), -1);
      expect_done(host::allgather({mine.data(), count, &int_type()}, {all.data(), count, &int_type()}, comm));
      wrong += all != from_all(n, i, count) ? 1 : 0;

      Ints gathered(comm.rank() == root ? all.size() : 0, -1);
      expect_done(
          host::gather({mine.data(), count, &int_type()}, {gathered.data(), count, &int_type()}, root, comm));
      wrong += comm.rank() == root && gathered != all ? 1 : 0;
      Ints back(mine.size(), -1);
      expect_done(host::scatter({gathered.data(), count, &int_type()}, {back.data(), count, &int_type()},
                                root, comm));
      wrong += back != mine ? 1 : 0;

      Ints leaving;
      Ints wanted;
      for (int other = 0; other < n; ++other) {
        const Ints to = data(comm.rank(), other, count);
        const Ints from = data(other, comm.rank(), count);
        leaving.insert(leaving.end(), to.begin(), to.end());
        wanted.insert(wanted.end(), from.begin(), from.end());
      }
      const bool here = i % 2 == 0;
      Ints arrived = here ? leaving : Ints(leaving.size(), -1);
      expect_done(host::alltoall({here ? in_place : leaving.data(), count, &int_type()},
                                 {arrived.data(), count, &int_type()}, comm));
      wrong += arrived != wanted ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0U);
  });
}

/// Sums that depend on the order of their operands, of values far apart.
std::vector<double> operands(int rank, std::int64_t count) {
  std::minstd_rand random(static_cast<std::uint32_t>(1 + rank));
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values)
    value =
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 60)) * (random() % 2 ? 1 : -1);
  return values;
}

TEST(LiveCollectives, ReductionsHaveTheSameBitsByEachWay) {
  for (const std::uint32_t ranks : {2U, 3U}) {
    run_members(ranks, [](Communicator& comm) {
      const Datatype& type = Datatype::basic(Basic::double_);
      const Op& sum = Op::predefined(OpCode::sum);
      for (const std::int64_t count : {300, 2000, 9001}) {
        std::vector<double> wanted = operands(comm.size() - 1, count);
        for (int i = comm.size() - 2; i >= 0; --i)
          expect_done(sum.reduce(operands(i, count).data(), wanted.data(), count, type));
        const std::vector<double> mine = operands(comm.rank(), count);
        const Reduction what{count, &type, &sum};
        std::size_t wrong = 0;
        const auto differs = [&](const std::vector<double>& result) {
          return std::memcmp(result.data(), wanted.data(), wanted.size() * sizeof(double)) != 0;
        };
        const int rounds = under_thread_sanitizer ? 30 : 150;
        for (int i = 0; i < rounds; ++i) {
          std::vector<double> result(mine.size());
          expect_done(host::allreduce(mine.data(), result.data(), what, comm));
          wrong += differs(result) ? 1 : 0;
          const int root = i % comm.size();
          std::vector<double> at_root(mine.size());
          expect_done(
              host::reduce(mine.data(), comm.rank() == root ? at_root.data() : nullptr, what, root, comm));
          wrong += comm.rank() == root && differs(at_root) ? 1 : 0;
        }
        EXPECT_EQ(wrong, 0U) << count;
      }
    });
  }
}

}  // namespace
}  // namespace isthmus::coll::live_calls_test
