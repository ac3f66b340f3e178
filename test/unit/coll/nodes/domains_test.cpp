// Collectives of communicators that span domains. Ranks are threads. Several hosts are regions of this
// process, and what goes between them goes over a real network port; sockets are what the ranks' records say.
// Each result is compared with what it has to be by definition.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "coll/call/coll.hpp"
#include "coll/context/footing.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/nodes/domains.hpp"
#include "coll/select/select.hpp"
#include "coll_data.hpp"
#include "datatype/make/construct.hpp"
#include "engine_ranks.hpp"

namespace isthmus::coll::domains_test {
namespace {

using testing_ranks::Conditions;
using testing_ranks::Rank;
using namespace testing_data;

struct Shape {
  Domains kind;
  std::uint32_t domains;
  std::uint32_t each;  ///< ranks of a domain

  [[nodiscard]] std::string name() const {
    return (kind == Domains::hosts ? "Hosts" : "Sockets") + std::to_string(domains) + "x" +
           std::to_string(each);
  }
  friend void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name(); }
};

/// The job's ranks are dealt out to the domains in turn; which of them are in a communicator, and in which
/// order, makes the other layouts.
enum class Dealing : std::uint8_t { in_turn, in_blocks, uneven, backwards };
constexpr Dealing every_dealing[]{Dealing::in_turn, Dealing::in_blocks, Dealing::uneven, Dealing::backwards};

/// Those of `shape` in the order that `dealing` wants. Uneven: domain h has 1 + h % each members.
std::vector<PeerId> members_of(const Shape& shape, Dealing dealing) {
  std::vector<PeerId> members;
  if (dealing == Dealing::in_turn || dealing == Dealing::backwards)
    for (PeerId rank = 0; rank < shape.domains * shape.each; ++rank)
      members.push_back(rank);
  else
    for (PeerId domain = 0; domain < shape.domains; ++domain)
      for (PeerId index = 0; index < (dealing == Dealing::uneven ? 1 + domain % shape.each : shape.each);
           ++index)
        members.push_back(index * shape.domains + domain);
  if (dealing == Dealing::backwards) std::ranges::reverse(members);
  return members;
}

/// Far from what the engine hands out.
constexpr ContextId first_context = ContextId{1} << 60;

/// Runs `body(comm)` on every member of a communicator of each layout.
void run_layouts(const Shape& shape, const std::function<void(Communicator&)>& body) {
  const Conditions conditions{"Domains",
                              {64, 64 * 1024},
                              wire::IdlePolicy::sleep,
                              CmaSetting::automatic,
                              0,
                              shape.kind == Domains::hosts ? shape.domains : 1};
  testing_ranks::run(shape.domains * shape.each, conditions, [&](const Rank& rank) {
    if (shape.kind == Domains::sockets) {
      const launch::Job& job = rank.engine.job();
      job.region.block(job.slot).place.package =
          static_cast<std::int32_t>(rank.engine.rank() % shape.domains);
    }
    rank.meet();
    ContextId context = first_context;
    std::vector<PeerId> everybody(rank.engine.size());
    std::iota(everybody.begin(), everybody.end(), 0U);
    const auto world = Communicator::make(rank.engine, make_ref<Group>(std::move(everybody)), context);
    for (const Dealing dealing : every_dealing) {
      context += 2;
      std::vector<PeerId> members = members_of(shape, dealing);
      if (std::ranges::find(members, rank.engine.rank()) != members.end()) {
        const auto comm = Communicator::make(rank.engine, make_ref<Group>(std::move(members)), context);
        body(*comm);
      }
      // Not in `rank.meet()`: who waits there makes no progress, which others may need.
      expect_done(barrier_dissemination(Ranks(*world, Tag::barrier)));
    }
  });
}

/// The communicator's domains; null where their algorithms do not apply.
const Hierarchy* domains_of(Communicator& comm) {
  const auto footing = Footing::of(comm);
  EXPECT_TRUE(footing.has_value()) << footing.error().text();
  return footing ? (*footing)->hierarchy() : nullptr;
}

/// Elements of two ints with a gap between them.
const Datatype& gap_type() {
  static const Ref<Datatype> type = [] {
    auto made = vector_type(2, 1, 2, Datatype::basic(Basic::int32), Form::small);
    EXPECT_TRUE((*made)->commit());
    return *made;
  }();
  return *type;
}

/// 0, 1 and more elements; 8 B, 1 KiB, 64 KiB.
constexpr std::int64_t counts[]{0, 1, 2, 256, 16 * 1024};
constexpr std::int64_t mebibyte = 256 * 1024;

class EveryShape : public testing::TestWithParam<Shape> {};

std::vector<Shape> every_shape() {
  std::vector<Shape> shapes;
  for (const std::uint32_t domains : {2U, 3U, 4U})
    for (const std::uint32_t each : {1U, 2U, 3U})
      shapes.push_back({Domains::hosts, domains, each});
  // The last one has more members than look at each other's lines.
  for (const auto& [domains, each] : {std::pair{2U, 1U}, {2U, 2U}, {2U, 3U}, {3U, 2U}, {2U, 9U}})
    shapes.push_back({Domains::sockets, domains, each});
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Domains, EveryShape, testing::ValuesIn(every_shape()),
                         [](const auto& info) { return info.param.name(); });

TEST_P(EveryShape, AllMembersKnowTheSameHosts) {
  run_layouts(GetParam(), [&](Communicator& comm) {
    const Hierarchy* domains = domains_of(comm);
    ASSERT_EQ(domains != nullptr, GetParam().each > 1);
    if (!domains) return;
    EXPECT_EQ(domains->count(), static_cast<int>(GetParam().domains));
    for (int rank = 0; rank < comm.size(); ++rank) {
      const PeerId apart = comm.peer(rank) - comm.peer(comm.rank());
      const int domain = domains->domain_of(rank);
      EXPECT_EQ(domain == domains->own_domain(),
                static_cast<std::int32_t>(apart) % static_cast<std::int32_t>(GetParam().domains) == 0);
      EXPECT_EQ(domains->ranks_of(domain)[static_cast<std::size_t>(domains->index_of(rank))], rank);
    }
    EXPECT_TRUE(std::ranges::is_sorted(domains->leaders()));
    EXPECT_EQ(domains->local().size(), domains->members(domains->own_domain()));
  });
}

TEST_P(EveryShape, BarrierHoldsUntilTheLastHasCome) {
  std::atomic<int> arrived{0};
  std::atomic<int> before{0};
  run_layouts(GetParam(), [&](Communicator& comm) {
    // What earlier layouts counted is the same for all once the first barrier is over.
    expect_done(barrier(comm));
    if (comm.rank() == 0) before = arrived.load();
    expect_done(barrier(comm));
    const int start = before;
    for (int round = 1; round <= 20; ++round) {
      arrived.fetch_add(1);
      expect_done(barrier(comm));
      EXPECT_GE(arrived.load() - start, round * comm.size());
      expect_done(barrier(comm));
    }
  });
}

TEST_P(EveryShape, BcastReachesAllFromEveryRoot) {
  run_layouts(GetParam(), [](Communicator& comm) {
    const Hierarchy* domains = domains_of(comm);
    for (int root = 0; root < comm.size(); ++root) {
      for (const std::int64_t count : counts) {
        const Ints wanted = data(root, 0, count);
        const auto start = [&] { return comm.rank() == root ? wanted : Ints(wanted.size(), -1); };
        Ints buffer = start();
        expect_done(bcast(buffer.data(), count, int_type(), root, comm));
        EXPECT_EQ(buffer, wanted);
        if (!domains) continue;
        buffer = start();
        expect_done(bcast_leaders({comm, *domains}, {buffer.data(), count, &int_type()}, root));
        EXPECT_EQ(buffer, wanted);
        buffer = start();
        expect_done(bcast_segments({comm, *domains}, {buffer.data(), count, &int_type()}, root));
        EXPECT_EQ(buffer, wanted);
      }
    }
  });
}

TEST_P(EveryShape, LongBcastsGoInSegmentsFromAndToGaps) {
  run_layouts(GetParam(), [](Communicator& comm) {
    const int root = comm.size() - 1;
    const Ints wanted = data(root, 0, mebibyte + 77);
    const bool gaps = comm.rank() % 2 == 1;
    const std::size_t stride = gaps ? 2 : 1;
    Ints buffer(wanted.size() * stride + 1, -1);
    if (comm.rank() == root)
      for (std::size_t i = 0; i < wanted.size(); ++i)
        buffer[i * stride] = wanted[i];
    const auto strided = vector_type(static_cast<std::int64_t>(wanted.size()), 1, 2,
                                     Datatype::basic(Basic::int32), Form::small);
    ASSERT_TRUE((*strided)->commit());
    const auto count = static_cast<std::int64_t>(wanted.size());
    expect_done(gaps ? bcast(buffer.data(), 1, **strided, root, comm)
                     : bcast(buffer.data(), count, int_type(), root, comm));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      wrong += buffer[i * stride] != wanted[i] ? 1 : 0;
      if (gaps) wrong += buffer[i * stride + 1] != -1 ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0U);
  });
}

TEST_P(EveryShape, GatherAndScatterKeepRankOrder) {
  run_layouts(GetParam(), [](Communicator& comm) {
    const int n = comm.size();
    for (int root = 0; root < n; ++root) {
      for (const std::int64_t count : {0, 1, 2, 256, 3000}) {
        const bool at_root = comm.rank() == root;
        const Ints mine = data(comm.rank(), 1, count);
        const Ints all = from_all(n, 1, count);
        for (const bool here : {false, true}) {
          Ints gathered(at_root ? all.size() : 0, -1);
          if (at_root && here) std::ranges::copy(mine, gathered.begin() + root * count);
          const In in{at_root && here ? in_place : mine.data(), count, &int_type()};
          expect_done(gather(in, {gathered.data(), count, &int_type()}, root, comm));
          if (at_root) EXPECT_EQ(gathered, all);

          Ints back(mine.size(), -1);
          const In spread{at_root ? all.data() : nullptr, count, &int_type()};
          expect_done(
              scatter(spread, {at_root && here ? in_place : back.data(), count, &int_type()}, root, comm));
          if (!(at_root && here)) EXPECT_EQ(back, mine);
        }
      }
    }
  });
}

TEST_P(EveryShape, AllgatherPutsEveryBlockInItsPlace) {
  run_layouts(GetParam(), [](Communicator& comm) {
    const Hierarchy* domains = domains_of(comm);
    const int n = comm.size();
    for (const std::int64_t count : counts) {
      const Ints wanted = from_all(n, 2, count);
      const Ints mine = data(comm.rank(), 2, count);
      const auto start = [&] {
        Ints all(wanted.size(), -1);
        std::ranges::copy(mine, all.begin() + comm.rank() * count);
        return all;
      };
      Ints all(wanted.size(), -1);
      expect_done(allgather({mine.data(), count, &int_type()}, {all.data(), count, &int_type()}, comm));
      EXPECT_EQ(all, wanted);
      all = start();
      expect_done(allgather({in_place, 0, nullptr}, {all.data(), count, &int_type()}, comm));
      EXPECT_EQ(all, wanted);
      if (!domains) continue;
      all = start();
      expect_done(allgather_leaders({comm, *domains}, Out{all.data(), count, &int_type()}));
      EXPECT_EQ(all, wanted);
      all = start();
      expect_done(allgather_along({comm, *domains}, Out{all.data(), count, &int_type()}));
      EXPECT_EQ(all, wanted);
      if (!domains->is_even()) continue;
      all = start();
      expect_done(allgather_slices({comm, *domains}, Out{all.data(), count, &int_type()}));
      EXPECT_EQ(all, wanted);
    }
  });
}

TEST_P(EveryShape, AllgathervOfBlocksOfAllSizesInAnyOrder) {
  run_layouts(GetParam(), [](Communicator& comm) {
    const Hierarchy* domains = domains_of(comm);
    const int n = comm.size();
    for (const int scale : {1, 3000}) {
      std::vector<int> sizes, places;
      int total = 0;
      for (int i = 0; i < n; ++i)
        sizes.push_back(i % 3 == 1 ? 0 : scale * (i + 1));
      for (int i = n - 1; i >= 0; --i) {
        places.insert(places.begin(), total + 1);
        total += sizes[static_cast<std::size_t>(i)] + 1;
      }
      Ints wanted(static_cast<std::size_t>(total) + 1, -1);
      for (int i = 0; i < n; ++i)
        std::ranges::copy(data(i, 3, sizes[static_cast<std::size_t>(i)]),
                          wanted.begin() + places[static_cast<std::size_t>(i)]);
      const Ints mine = data(comm.rank(), 3, sizes[static_cast<std::size_t>(comm.rank())]);
      Ints all(wanted.size(), -1);
      const OutV out{all.data(), sizes.data(), places.data(), &int_type()};
      const In in{mine.data(), static_cast<std::int64_t>(mine.size()), &int_type()};
      expect_done(allgatherv(in, out, comm));
      EXPECT_EQ(all, wanted);
      for (const bool slices : {false, true}) {
        if (!domains || (slices && !domains->is_even())) continue;
        std::ranges::fill(all, -1);
        std::ranges::copy(mine, all.begin() + places[static_cast<std::size_t>(comm.rank())]);
        expect_done(slices ? allgather_slices({comm, *domains}, out)
                           : allgather_leaders({comm, *domains}, out));
        EXPECT_EQ(all, wanted);
        std::ranges::fill(all, -1);
        std::ranges::copy(mine, all.begin() + places[static_cast<std::size_t>(comm.rank())]);
        expect_done(allgather_along({comm, *domains}, out));
        EXPECT_EQ(all, wanted);
      }
    }
  });
}

TEST_P(EveryShape, AlltoallTransposes) {
  run_layouts(GetParam(), [](Communicator& comm) {
    const Hierarchy* domains = domains_of(comm);
    const int n = comm.size();
    for (const std::int64_t count : {0, 1, 2, 256, 5000}) {
      Ints leaving;
      for (int i = 0; i < n; ++i) {
        const Ints block = data(comm.rank(), i, count);
        leaving.insert(leaving.end(), block.begin(), block.end());
      }
      const Ints wanted = from_all(n, comm.rank(), count);
      Ints arriving(leaving.size(), -1);
      const Out out{arriving.data(), count, &int_type()};
      const In in{leaving.data(), count, &int_type()};
      expect_done(alltoall(in, out, comm));
      EXPECT_EQ(arriving, wanted);
      arriving = leaving;
      expect_done(alltoall({in_place, 0, nullptr}, out, comm));
      EXPECT_EQ(arriving, wanted);
      if (!domains) continue;
      std::ranges::fill(arriving, -1);
      expect_done(alltoall_leaders({comm, *domains}, in, out));
      EXPECT_EQ(arriving, wanted);
      arriving = leaving;
      expect_done(alltoall_leaders({comm, *domains}, {arriving.data(), count, &int_type()}, out));
      EXPECT_EQ(arriving, wanted);
    }
  });
}

TEST_P(EveryShape, BlocksWithGapsKeepThem) {
  run_layouts(GetParam(), [](Communicator& comm) {
    const int n = comm.size();
    const auto with_gaps = [](const Ints& ints) {
      Ints spread;
      for (std::size_t i = 0; i < ints.size(); i += 2)
        spread.insert(spread.end(), {ints[i], -1, ints[i + 1]});
      return spread;
    };
    for (const std::int64_t count : {1, 20, 4000}) {
      const Ints mine = data(comm.rank(), 4, 2 * count);
      const Ints wanted = with_gaps(from_all(n, 4, 2 * count));
      Ints all(wanted.size(), -1);
      expect_done(allgather({mine.data(), 2 * count, &int_type()}, {all.data(), count, &gap_type()}, comm));
      EXPECT_EQ(all, wanted);

      Ints leaving;
      for (int i = 0; i < n; ++i) {
        const Ints block = with_gaps(data(comm.rank(), i, 2 * count));
        leaving.insert(leaving.end(), block.begin(), block.end());
      }
      const Ints transposed = with_gaps(from_all(n, comm.rank(), 2 * count));
      std::ranges::fill(all, -1);
      expect_done(alltoall({leaving.data(), count, &gap_type()}, {all.data(), count, &gap_type()}, comm));
      EXPECT_EQ(all, transposed);
    }
  });
}

/// The sum of every first word of three, left in gaps: an operation that looks at the extent.
const Op& sum_of_gaps() {
  static const Ref<Op> op = Op::user(
      [](const void* in, void* inout, std::int64_t count, const Datatype& type) {
        for (std::int64_t i = 0; i < count; ++i) {
          const auto* left = static_cast<const std::int32_t*>(in) + i * type.extent() / 4;
          auto* right = static_cast<std::int32_t*>(inout) + i * type.extent() / 4;
          right[0] += left[0];
          right[2] += left[2];
        }
      },
      true);
  return *op;
}

struct Kind {
  const Datatype& type;
  const Op& op;
  int words;  ///< of an element, gaps included

  Ints operand(int rank, std::int64_t count) const { return data(rank, 1, count * words); }
  Ints of_all(int n, std::int64_t count) const {
    Ints sum = operand(n - 1, count);
    for (int i = n - 2; i >= 0; --i)
      EXPECT_TRUE(op.reduce(operand(i, count).data(), sum.data(), count, type).has_value());
    return sum;
  }
};

std::vector<Kind> every_kind() {
  return {{int_type(), Op::predefined(OpCode::sum), 1},
          {Datatype::basic(Basic::int64), Op::predefined(OpCode::max), 2},
          {Datatype::basic(Basic::int64), composition(), 2}};
}

bool applies(const Hierarchy* domains, const Op& op) {
  return domains && (op.commutative() || domains->in_order());
}

TEST_P(EveryShape, AllreduceCombinesInOrder) {
  run_layouts(GetParam(), [](Communicator& comm) {
    const Hierarchy* domains = domains_of(comm);
    for (const Kind& kind : every_kind()) {
      for (const std::int64_t count : counts) {
        const Reduction what{count, &kind.type, &kind.op};
        const Ints mine = kind.operand(comm.rank(), count);
        const Ints wanted = kind.of_all(comm.size(), count);
        Ints result(mine.size(), -1);
        expect_done(allreduce(mine.data(), result.data(), what, comm));
        EXPECT_EQ(result, wanted);
        result = mine;
        expect_done(allreduce(in_place, result.data(), what, comm));
        EXPECT_EQ(result, wanted);
        if (!applies(domains, kind.op)) continue;
        for (const auto algorithm : {allreduce_leaders, allreduce_slices}) {
          if (algorithm == allreduce_slices && !domains->is_even()) continue;
          std::ranges::fill(result, -1);
          expect_done(algorithm({comm, *domains}, mine.data(), result.data(), what));
          EXPECT_EQ(result, wanted);
          result = mine;
          expect_done(algorithm({comm, *domains}, result.data(), result.data(), what));
          EXPECT_EQ(result, wanted);
        }
      }
    }
  });
}

TEST_P(EveryShape, ReduceAtEveryRoot) {
  run_layouts(GetParam(), [](Communicator& comm) {
    const Hierarchy* domains = domains_of(comm);
    for (const Kind& kind : every_kind()) {
      for (const std::int64_t count : {0, 1, 256, 20'000}) {
        const Reduction what{count, &kind.type, &kind.op};
        const Ints mine = kind.operand(comm.rank(), count);
        const Ints wanted = kind.of_all(comm.size(), count);
        for (int root = 0; root < comm.size(); ++root) {
          const bool at_root = comm.rank() == root;
          Ints result(mine.size(), -1);
          expect_done(reduce(mine.data(), at_root ? result.data() : nullptr, what, root, comm));
          if (at_root) EXPECT_EQ(result, wanted);
          if (!applies(domains, kind.op)) continue;
          result = mine;
          expect_done(reduce_leaders({comm, *domains}, at_root ? result.data() : mine.data(),
                                     at_root ? result.data() : nullptr, what, root));
          if (at_root) EXPECT_EQ(result, wanted);
          if (!kind.op.commutative()) continue;
          result = mine;
          expect_done(reduce_along({comm, *domains}, at_root ? result.data() : mine.data(),
                                   at_root ? result.data() : nullptr, what, root));
          if (at_root) EXPECT_EQ(result, wanted);
        }
      }
    }
  });
}

TEST_P(EveryShape, LongAllreduceAndOperationsOnGaps) {
  run_layouts(GetParam(), [](Communicator& comm) {
    for (const Kind& kind :
         {Kind{int_type(), Op::predefined(OpCode::sum), 1}, Kind{gap_type(), sum_of_gaps(), 3}}) {
      const std::int64_t count = kind.words == 1 ? mebibyte + 3 : 1000;
      const Reduction what{count, &kind.type, &kind.op};
      const Ints mine = kind.operand(comm.rank(), count);
      Ints wanted = kind.of_all(comm.size(), count);
      Ints result(mine.size(), -1);
      for (std::size_t i = 1; kind.words == 3 && i < wanted.size(); i += 3)
        wanted[i] = -1;
      expect_done(allreduce(mine.data(), result.data(), what, comm));
      EXPECT_TRUE(result == wanted);
    }
  });
}

// Sums of floating-point numbers depend on their order: all ranks must have used the same one.
TEST_P(EveryShape, FloatingPointSumsAreTheSameBitsEverywhere) {
  run_layouts(GetParam(), [](Communicator& comm) {
    for (const std::int64_t count : {1, 1000, 20'000}) {
      std::vector<double> mine(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < mine.size(); ++i)
        mine[i] = 1.0 / (1.0 + static_cast<double>(i * 7 + static_cast<std::size_t>(comm.rank()) * 13));
      std::vector<double> result(mine.size());
      const Reduction what{count, &Datatype::basic(Basic::double_), &Op::predefined(OpCode::sum)};
      expect_done(allreduce(mine.data(), result.data(), what, comm));
      std::vector<double> first = result;
      expect_done(bcast(first.data(), count, Datatype::basic(Basic::double_), 0, comm));
      EXPECT_EQ(std::memcmp(first.data(), result.data(), first.size() * sizeof(double)), 0);
    }
  });
}

}  // namespace
}  // namespace isthmus::coll::domains_test
