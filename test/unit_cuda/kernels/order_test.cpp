#include "kernels/body/order.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/courier.hpp"
#include "kernels_fixture.hpp"

namespace isthmus::testing_cuda::order_test {
namespace {

using namespace std::chrono_literals;
using Ints = std::vector<int>;

constexpr int members = 3;
constexpr std::uint8_t everybody = (1U << members) - 1;

/// Members of a team in one process, on one device. The last one has a courier, the others give their parts
/// to kernels.
class OrderTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped()) return;
    // It does not stay for long: who frees memory waits for it.
    auto made = Courier::make(contexts, kernels, 0, {.idle = 1ms, .begin = 20s});
    ASSERT_TRUE(made) << made.error().text();
    courier = std::move(*made);
    void* memory = nullptr;
    ASSERT_EQ(functions.host_allocate(&memory, sizeof(Words), cuda::host_portable), cuda::Status::success);
    words = new (memory) Words{};
    for (int i = 0; i < members; ++i) {
      rooms.push_back(std::make_unique<DeviceBytes>(functions, kernel::order_room_bytes(members)));
      rooms.back()->write(std::vector<std::byte>(kernel::order_room_bytes(members)));
      places.push_back(std::make_unique<DeviceBytes>(functions, sizeof(kernel::MeetTable)));
      ASSERT_EQ(functions.stream_create(&streams[static_cast<std::size_t>(i)], cuda::stream_non_blocking),
                cuda::Status::success);
    }
    for (int i = 0; i < members; ++i) {
      kernel::MeetTable& table = tables[static_cast<std::size_t>(i)];
      for (int k = 0; k < members; ++k)
        table.rooms[k] = reinterpret_cast<kernel::Byte*>(rooms[static_cast<std::size_t>(k)]->data());
      table.ended = &words->ended;
      table.id = static_cast<std::uint64_t>(i) + 1;
      table.rank = static_cast<std::uint32_t>(i);
      table.members = members;
      places[static_cast<std::size_t>(i)]->write(std::as_bytes(std::span(&table, 1)));
    }
  }
  void TearDown() override {
    courier.reset();
    for (cuda::Stream stream : streams)
      if (stream) functions.stream_destroy(stream);
    if (words) functions.host_free(words);
  }

  /// A number for each member.
  static Ints values(int member, std::size_t count) {
    Ints made(count);
    std::iota(made.begin(), made.end(), 1000 * member + 7);
    return made;
  }
  struct Buffers {
    std::unique_ptr<DeviceBytes> send, receive;
  };
  std::vector<Buffers> buffers(std::size_t send, std::size_t receive) const {
    std::vector<Buffers> made;
    for (int i = 0; i < members; ++i) {
      made.push_back({std::make_unique<DeviceBytes>(functions, (send + 1) * sizeof(int)),
                      std::make_unique<DeviceBytes>(functions, (receive + 1) * sizeof(int))});
      const Ints sent = values(i, send);
      const Ints empty(receive + 1, -1);
      made.back().send->write(std::as_bytes(std::span(sent)));
      made.back().receive->write(std::as_bytes(std::span(empty)));
    }
    return made;
  }
  static Ints ints(const DeviceBytes& bytes) {
    const auto raw = bytes.read();
    Ints made(raw.size() / sizeof(int));
    std::memcpy(made.data(), raw.data(), raw.size());
    return made;
  }

  /// One round. `shape(member, order)`.
  void run(const std::vector<Buffers>& data, std::uint32_t bytes,
           const std::function<void(int, kernel::MeetOrder&)>& shape) {
    ++round;
    std::uint64_t number = 0;
    for (int i = members; i-- > 0;) {
      const auto at = static_cast<std::size_t>(i);
      kernel::MeetOrder order{};
      order.send = reinterpret_cast<kernel::Byte*>(data[at].send->data());
      order.receive = reinterpret_cast<kernel::Byte*>(data[at].receive->data());
      order.round = round;
      order.bytes = bytes;
      shape(i, order);
      if (i == members - 1) {
        ASSERT_TRUE(courier->can_take(order));
        const auto taken = courier->take(order, places[at]->data(), tables[at].id);
        ASSERT_TRUE(taken) << taken.error().text();
        number = *taken;
      } else {
        const auto begun = kernels.order({.device = 0, .stream = streams[at]},
                                         {.table = tables[at], .order = order, .done = &words->done[at]});
        ASSERT_TRUE(begun) << begun.error().text();
      }
    }
    for (cuda::Stream stream : streams)
      ASSERT_EQ(functions.stream_synchronize(stream), cuda::Status::success);
    auto fate = courier->look(number);
    while (fate && *fate == Courier::Fate::waiting) {
      std::this_thread::yield();
      fate = courier->look(number);
    }
    ASSERT_TRUE(fate) << fate.error().text();
    ASSERT_EQ(*fate, Courier::Fate::delivered);
    for (std::size_t i = 0; i + 1 < members; ++i)
      ASSERT_EQ(words->done[i], round);
  }

  struct Words {
    std::uint64_t ended;
    std::uint64_t done[members];
  };
  std::unique_ptr<Courier> courier;
  Words* words = nullptr;
  std::vector<std::unique_ptr<DeviceBytes>> rooms, places;
  std::array<kernel::MeetTable, members> tables{};
  std::array<cuda::Stream, members> streams{};
  std::uint64_t round = 0;
};

constexpr std::array<std::size_t, 7> counts{1, 2, 3, 5, 127, 129, kernel::most_order_bytes / sizeof(int)};

TEST_F(OrderTest, CombinesInTheOrderOfRanks) {
  const auto sum = GpuKernels::combiner(Op::predefined(OpCode::sum), Datatype::basic(Basic::int32));
  ASSERT_TRUE(sum);
  for (const std::size_t count : counts) {
    const auto data = buffers(count, count);
    run(data, static_cast<std::uint32_t>(count * sizeof(int)), [&](int member, kernel::MeetOrder& order) {
      // As a scan: of the members up to this one.
      order.combine = *sum;
      order.take_from = static_cast<std::uint8_t>((2U << static_cast<unsigned>(member)) - 1);
      order.send_to = static_cast<std::uint8_t>(everybody & ~order.take_from);
    });
    for (int member = 0; member < members; ++member) {
      Ints wanted(count + 1, 0);
      for (int i = 0; i <= member; ++i)
        for (std::size_t k = 0; k < count; ++k)
          wanted[k] += values(i, count)[k];
      wanted[count] = -1;
      EXPECT_EQ(ints(*data[static_cast<std::size_t>(member)].receive), wanted) << count << ", " << member;
    }
  }
}

TEST_F(OrderTest, BringsEachMembersBlockToEachOther) {
  for (const std::size_t count : counts) {
    const auto data = buffers(count * members, count * members);
    run(data, static_cast<std::uint32_t>(count * sizeof(int)), [&](int, kernel::MeetOrder& order) {
      order.send_to = order.take_from = everybody;
      order.send_differs = order.take_differs = true;
    });
    for (int member = 0; member < members; ++member) {
      Ints wanted;
      for (int i = 0; i < members; ++i) {
        const Ints all = values(i, count * members);
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(count) * member;
        wanted.insert(wanted.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
      }
      wanted.push_back(-1);
      EXPECT_EQ(ints(*data[static_cast<std::size_t>(member)].receive), wanted) << count << ", " << member;
    }
  }
}

TEST_F(OrderTest, EndsWhereNobodyWaitsAnyMore) {
  const auto data = buffers(1, members);
  std::thread host([&] {
    std::this_thread::sleep_for(50ms);
    std::atomic_ref(words->ended).store(1);
  });
  run(data, sizeof(int), [&](int member, kernel::MeetOrder& order) {
    // Member 0 says nothing, and all wait for it.
    order.send_to = member == 0 ? 0 : everybody;
    order.take_from = everybody;
    order.take_differs = true;
  });
  host.join();
  EXPECT_EQ(ints(*data[1].receive).front(), -1);
}

TEST(Orders, AreTakenWholeOrNotAtAll) {
  kernel::MeetOrder order{};
  order.send = reinterpret_cast<kernel::Byte*>(0x7123'4567'89ab);
  order.receive = reinterpret_cast<kernel::Byte*>(0x7fff'ffff'fffe);
  order.round = 0x1234'5678'9abc;
  order.bytes = kernel::most_order_bytes;
  order.combine = 141;
  order.send_to = 0x81;
  order.take_from = 0xff;
  order.take_differs = true;
  constexpr std::uint64_t number = 4711;
  const kernel::ParcelSlot slot = kernel::make_order(number, order, 0x7000'0000'1000, 99);
  for (const kernel::Parcel& line : slot.lines) {
    EXPECT_TRUE(kernel::is_parcel(line, number));
    EXPECT_FALSE(kernel::is_parcel(line, number + kernel::courier_slots));
  }
  EXPECT_TRUE(kernel::is_order(slot.lines[0]));
  EXPECT_FALSE(kernel::is_order(kernel::make_parcel(number, 0x7fff'ffff'ffff, 0x1000, 8)));
  const kernel::OrderParcel read = kernel::read_order(slot.lines[0], slot.lines[1], slot.lines[2]);
  EXPECT_EQ(read.send, 0x7123'4567'89abU);
  EXPECT_EQ(read.receive, 0x7fff'ffff'fffeU);
  EXPECT_EQ(read.table, 0x7000'0000'1000U);
  EXPECT_EQ(read.table_id, 99U);
  EXPECT_EQ(read.order.round, order.round);
  EXPECT_EQ(read.order.bytes, order.bytes);
  EXPECT_EQ(read.order.combine, order.combine);
  EXPECT_EQ(read.order.send_to, order.send_to);
  EXPECT_EQ(read.order.take_from, order.take_from);
  EXPECT_FALSE(read.order.send_differs);
  EXPECT_TRUE(read.order.take_differs);
}

}  // namespace
}  // namespace isthmus::testing_cuda::order_test
