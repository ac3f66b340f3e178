#include "kernels/courier.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "emulated_control.hpp"
#include "kernels_fixture.hpp"
#include "p2p/gpu_copy/couriers.hpp"

namespace isthmus::testing_cuda::courier_test {
namespace {

using namespace std::chrono_literals;
using cuda::Status;
using Bytes = std::vector<std::byte>;

/// A courier that is not in a hurry, on whatever machine.
constexpr Courier::Patience calm{.idle = 20s, .begin = 20s};

Bytes pattern(std::size_t bytes, unsigned seed) {
  Bytes values(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    values[i] = static_cast<std::byte>(i * 31 + i / 251 + seed);
  return values;
}

class CourierTest : public KernelTest {
 protected:
  std::unique_ptr<Courier> make(Courier::Patience patience) {
    auto made = Courier::make(contexts, kernels, 0, patience);
    if (!made) throw std::runtime_error(made.error().text());
    return std::move(*made);
  }
  static Result<Courier::Fate> wait(Courier& courier, std::uint64_t number) {
    for (;;) {
      auto fate = courier.look(number);
      if (!fate || *fate != Courier::Fate::waiting) return fate;
      std::this_thread::yield();
    }
  }
  static void deliver(Courier& courier, std::byte* to, const std::byte* from, std::size_t bytes) {
    ASSERT_TRUE(courier.can_take(to, from, bytes));
    const auto number = courier.take(to, from, bytes);
    ASSERT_TRUE(number) << number.error().text();
    const auto fate = wait(courier, *number);
    ASSERT_TRUE(fate) << fate.error().text();
    ASSERT_EQ(*fate, Courier::Fate::delivered);
  }
};

TEST_F(CourierTest, CarriesAnyNumberOfBytesFromAndToAnywhere) {
  constexpr std::size_t room = 70'000;
  const DeviceBytes from(functions, room);
  const DeviceBytes to(functions, room);
  const Bytes sent = pattern(room, 5);
  from.write(sent);
  const auto courier = make(calm);
  for (const std::size_t bytes : {1U, 8U, 15U, 17U, 33U, 100U, 4096U, 4099U, 16384U, 65535U, 65536U})
    for (const auto& [source, target] : {std::pair{0U, 0U}, {3U, 3U}, {16U, 4U}, {15U, 2U}}) {
      to.write(Bytes(room, std::byte{0xAB}));
      deliver(*courier, to.data() + target, from.data() + source, bytes);
      Bytes wanted(room, std::byte{0xAB});
      std::copy_n(sent.begin() + source, bytes, wanted.begin() + target);
      EXPECT_EQ(to.read(), wanted) << bytes << " bytes from " << source << " to " << target;
    }
  EXPECT_EQ(courier->counts().sent_out, 1U) << "one courier does all";
}

TEST_F(CourierTest, TakesSeveralAtATimeAndDeliversThemAll) {
  constexpr std::size_t bytes = 64;
  constexpr std::size_t messages = 500;
  const DeviceBytes from(functions, bytes * messages);
  const DeviceBytes to(functions, bytes * messages);
  const Bytes sent = pattern(bytes * messages, 1);
  from.write(sent);
  const auto courier = make(calm);
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < messages; ++i) {
    while (!courier->can_take(to.data() + i * bytes, from.data() + i * bytes, bytes))
      ASSERT_TRUE(courier->look(numbers.back()));
    numbers.push_back(*courier->take(to.data() + i * bytes, from.data() + i * bytes, bytes));
  }
  for (const std::uint64_t number : numbers)
    EXPECT_EQ(*wait(*courier, number), Courier::Fate::delivered);
  EXPECT_EQ(to.read(), sent);
}

TEST_F(CourierTest, LeavesWithoutWorkAndIsSentOutAgain) {
  const DeviceBytes from(functions, 8);
  const DeviceBytes to(functions, 8);
  const auto courier = make({.idle = 1ms, .begin = 20s});
  for (unsigned round = 1; round <= 3; ++round) {
    from.write(pattern(8, round));
    deliver(*courier, to.data(), from.data(), 8);
    EXPECT_EQ(to.read(), pattern(8, round));
    // Whoever synchronises the device waits for it, and no longer.
    EXPECT_EQ(functions.context_synchronize(), Status::success);
    EXPECT_FALSE(courier->is_out());
    EXPECT_GE(courier->counts().sent_out, round);
  }
}

TEST_F(CourierTest, GivesBackWhatAGpuWithoutRoomHasNotBegun) {
  const DeviceBytes from(functions, 8);
  const DeviceBytes to(functions, 8);
  from.write(pattern(8, 1));
  to.write(Bytes(8));
  const auto courier = make({.idle = 20s, .begin = 1ms});
  {
    const Fault full("DELAY_US", "300000", "20");
    const auto first = courier->take(to.data(), from.data(), 8);
    const auto second = courier->take(to.data(), from.data(), 8);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(*wait(*courier, *first), Courier::Fate::returned);
    EXPECT_FALSE(courier->can_take(to.data(), from.data(), 8)) << "nobody has heard of the second";
    EXPECT_EQ(*wait(*courier, *second), Courier::Fate::returned);
    EXPECT_EQ(courier->counts().recalled, 1U);
  }
  // It begins in the end, and copies nothing.
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  EXPECT_EQ(to.read(), Bytes(8));
}

TEST_F(CourierTest, DeliversAfterSeveralRecalls) {
  const DeviceBytes from(functions, 8);
  const DeviceBytes to(functions, 8);
  from.write(pattern(8, 7));
  const auto courier = make({.idle = 20s, .begin = 50ms});
  {
    const Fault full("DELAY_US", "400000", "20");
    for (unsigned recalls = 1; recalls <= 3; ++recalls) {
      ASSERT_TRUE(courier->can_take(to.data(), from.data(), 8));
      EXPECT_EQ(*wait(*courier, *courier->take(to.data(), from.data(), 8)), Courier::Fate::returned);
      EXPECT_EQ(courier->counts().recalled, recalls);
    }
    std::this_thread::sleep_for(1ms);  // the queue of the stream has taken the delay
  }
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  Courier::Fate fate = Courier::Fate::returned;
  for (int tries = 0; tries < 20 && fate == Courier::Fate::returned; ++tries)  // on a very busy machine
    fate = *wait(*courier, *courier->take(to.data(), from.data(), 8));
  EXPECT_EQ(fate, Courier::Fate::delivered);
  EXPECT_EQ(to.read(), pattern(8, 7));
}

TEST_F(CourierTest, TakesNoMoreThanThereAreSlots) {
  const DeviceBytes memory(functions, 64);
  const auto courier = make(calm);
  const Fault full("DELAY_US", "200000", "20");
  std::vector<std::uint64_t> numbers;
  while (courier->can_take(memory.data() + 32, memory.data(), 8))
    numbers.push_back(*courier->take(memory.data() + 32, memory.data(), 8));
  EXPECT_EQ(numbers.size(), kernel::courier_slots - 1);
  for (const std::uint64_t number : numbers)
    EXPECT_EQ(*wait(*courier, number), Courier::Fate::delivered);
  EXPECT_TRUE(courier->can_take(memory.data() + 32, memory.data(), 8));
}

TEST_F(CourierTest, TakesNothingThatAParcelCannotName) {
  const DeviceBytes memory(functions, 8);
  const auto courier = make(calm);
  std::byte* const beyond = memory.data() + (std::uint64_t{1} << 48U);
  EXPECT_FALSE(courier->can_take(beyond, memory.data(), 8));
  EXPECT_FALSE(courier->can_take(memory.data(), beyond, 8));
  EXPECT_FALSE(courier->can_take(memory.data(), memory.data() + kernel::order_bit, 8));
  EXPECT_FALSE(courier->can_take(memory.data(), memory.data(), 0));
  EXPECT_FALSE(courier->can_take(memory.data(), memory.data(), Courier::most_bytes + 1));
  EXPECT_TRUE(courier->can_take(memory.data(), memory.data(), Courier::most_bytes));
}

TEST_F(CourierTest, FailsWithTheGpu) {
  const DeviceBytes memory(functions, 8);
  auto courier = make(calm);
  const auto number = courier->take(memory.data(), reinterpret_cast<const std::byte*>(0x1000), 8);  // NOLINT
  ASSERT_TRUE(number);
  const auto fate = wait(*courier, *number);
  EXPECT_FALSE(fate);
  courier.reset();
  load_emulated().set("STICKY", "0");
}

TEST(Parcels, AreTakenWholeOrNotAtAll) {
  const kernel::Parcel old = kernel::make_parcel(3, 0x1234, 0x5678, 100);
  const kernel::Parcel next = kernel::make_parcel(3 + kernel::courier_slots, 0x1111, 0x2222, 65536);
  EXPECT_TRUE(kernel::is_parcel(old, 3));
  EXPECT_FALSE(kernel::is_parcel(old, 3 + kernel::courier_slots));
  EXPECT_FALSE(kernel::is_parcel({next.from, old.to}, 3 + kernel::courier_slots));
  EXPECT_FALSE(kernel::is_parcel({old.from, next.to}, 3 + kernel::courier_slots));
  EXPECT_TRUE(kernel::is_parcel(next, 3 + kernel::courier_slots));
  EXPECT_EQ(kernel::parcel_address(next.from), 0x1111U);
  EXPECT_EQ(kernel::parcel_address(next.to), 0x2222U);
  EXPECT_EQ(kernel::parcel_bytes(next), 65536U);
  EXPECT_FALSE(kernel::is_parcel({}, 1)) << "a fresh board has no parcel";
}

class CouriersTest : public CourierTest {
 protected:
  /// Asks until one is to go out; how often.
  static unsigned ask(GpuCouriers& couriers, unsigned most) {
    for (unsigned asked = 1; asked <= most; ++asked)
      if (couriers.is_worth_it(0)) return asked;
    return most + 1;
  }
};

TEST_F(CouriersTest, GoForShortMessagesOfLatencyBoundSenders) {
  GpuCouriers automatic(contexts, kernels, GpuCourierSetting::automatic);
  EXPECT_TRUE(automatic.wants(8, true));
  EXPECT_FALSE(automatic.wants(8, false));
  EXPECT_FALSE(automatic.wants(GpuCouriers::most_bytes + 1, true));
  EXPECT_TRUE(GpuCouriers(contexts, kernels, GpuCourierSetting::on).wants(8, false));
  EXPECT_FALSE(GpuCouriers(contexts, kernels, GpuCourierSetting::off).wants(8, true));
}

TEST_F(CouriersTest, GoOutWithAQuickMessageAndAfterOneInVainOnlyAfterAThousand) {
  GpuCouriers couriers(contexts, kernels, GpuCourierSetting::automatic);
  EXPECT_FALSE(couriers.is_worth_it(0)) << "nothing is known of how quickly messages come";
  EXPECT_LE(ask(couriers, 100'000), 100'000U);
  const DeviceBytes from(functions, 8);
  const DeviceBytes to(functions, 8);
  ASSERT_TRUE(couriers.take(0, to.data(), from.data(), 8));
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  EXPECT_GE(ask(couriers, 1'000'000), 960U) << "the program was kept waiting for one message";
}

TEST_F(CouriersTest, GoOutAgainAtOnceAfterOneThatWasWorthIt) {
  GpuCouriers couriers(contexts, kernels, GpuCourierSetting::automatic);
  ASSERT_LE(ask(couriers, 100'000), 100'000U);
  const DeviceBytes from(functions, 8);
  const DeviceBytes to(functions, 8);
  // By one courier or, on a busy machine, by several: 4 us for each message is earned.
  for (int served = 0; served < 2000; ++served) {
    std::optional<CourierCopy> errand;
    while (!(errand = couriers.take(0, to.data(), from.data(), 8))) {
    }
    EXPECT_NE(*wait(*errand->courier, errand->number), Courier::Fate::waiting);
  }
  EXPECT_THAT(couriers.explain(), testing::HasSubstr("GPU 0: 2000 messages by courier"));
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  EXPECT_LT(ask(couriers, 100'000), 960U);
}

TEST_F(CouriersTest, StayAtHomeWithoutKernels) {
  GpuKernels none(contexts, {});
  GpuCouriers couriers(contexts, none, GpuCourierSetting::on);
  const DeviceBytes memory(functions, 8);
  ASSERT_TRUE(couriers.is_worth_it(0));
  EXPECT_FALSE(couriers.take(0, memory.data(), memory.data(), 8));
  EXPECT_FALSE(couriers.is_worth_it(0)) << "it has been tried";
  EXPECT_THAT(couriers.explain(), testing::HasSubstr("no courier: this library was built without nvcc"));
}

}  // namespace
}  // namespace isthmus::testing_cuda::courier_test
