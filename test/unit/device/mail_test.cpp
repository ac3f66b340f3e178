// Short messages that kernels match, in plain memory: a member is a thread.
#include "kernels/body/mail.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

namespace isthmus::kernel::mail_test {
namespace {

using Numbers = std::vector<std::int32_t>;

/// Two members.
class Mailboxes {
 public:
  Mailboxes() {
    for (std::vector<Packet>& each : rooms_)
      each.resize(Mail::room_bytes(2) / sizeof(Packet));
    for (isthmus_device_control& each : controls)
      each = {};
  }
  [[nodiscard]] MailArguments arguments(std::uint32_t rank, std::uint32_t tag, Numbers& numbers) {
    MailArguments work{};
    work.port.control = &controls[rank];
    work.port.state = &states_[rank];
    work.own = reinterpret_cast<Byte*>(rooms_[rank].data());
    work.theirs = reinterpret_cast<Byte*>(rooms_[1 - rank].data());
    work.rank = rank;
    work.peer = 1 - rank;
    work.members = 2;
    work.tag = tag;
    work.data = {reinterpret_cast<Byte*>(numbers.data()), numbers.size() * 4};
    return work;
  }
  void send(std::uint32_t tag, Numbers numbers) { send_mail(arguments(0, tag, numbers)); }
  [[nodiscard]] Numbers receive(std::uint32_t tag, std::size_t room) {
    Numbers numbers(room, -1);
    receive_mail(arguments(1, tag, numbers));
    return numbers;
  }

  isthmus_device_control controls[2];

 private:
  isthmus_device_state states_[2]{};
  std::vector<Packet> rooms_[2];
};

Numbers from(std::int32_t first, std::size_t count) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST(Mail, ComesInTheOrderOfEachTag) {
  Mailboxes boxes;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(mail_slots); ++i)
    boxes.send(static_cast<std::uint32_t>(i % 4), from(100 * i, static_cast<std::size_t>(i)));
  for (const std::int32_t tag : {3, 1, 0, 2})
    for (std::int32_t i = tag; i < static_cast<std::int32_t>(mail_slots); i += 4) {
      const auto length = static_cast<std::size_t>(i);
      EXPECT_EQ(boxes.receive(static_cast<std::uint32_t>(tag), length), from(100 * i, length));
    }
}

TEST(Mail, ASenderWaitsForRoomAndAReceiverForMail) {
  Mailboxes boxes;
  constexpr int messages = 500;
  std::thread sender([&] {
    for (int i = 0; i < messages; ++i)
      boxes.send(7, from(i, static_cast<std::size_t>(i * 37 % 4097)));
  });
  for (int i = 0; i < messages; ++i) {
    const auto length = static_cast<std::size_t>(i * 37 % 4097);
    ASSERT_EQ(boxes.receive(7, length), from(i, length));
  }
  sender.join();
}

/// A message that nobody has received yet keeps its slot, and only that one, while others come and go.
TEST(Mail, OneThatWaitsIsPassedByOthers) {
  Mailboxes boxes;
  boxes.send(1, from(11, 3));
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(mail_slots) - 1; ++i) {
    boxes.send(2, from(i, 2));
    EXPECT_EQ(boxes.receive(2, 2), from(i, 2));
  }
  EXPECT_EQ(boxes.receive(1, 3), from(11, 3));
  boxes.send(1, from(12, 3));
  EXPECT_EQ(boxes.receive(1, 3), from(12, 3));
}

TEST(Mail, WhatIsTooLongFillsTheReceiveAndIsNoted) {
  Mailboxes boxes;
  boxes.send(1, from(0, 10));
  boxes.send(1, from(50, 2));
  Numbers numbers(5, -1);
  MailArguments work = boxes.arguments(1, 1, numbers);
  work.data.bytes = 16;
  work.operation = 42;
  device::u64 told = 0;
  work.told = &told;
  receive_mail(work);
  EXPECT_EQ(numbers, (Numbers{0, 1, 2, 3, -1}));
  EXPECT_EQ(told, 40U);
  EXPECT_EQ(boxes.controls[1].why, ISTHMUS_DEVICE_TRUNCATED);
  EXPECT_EQ(boxes.controls[1].number, 42U);
  EXPECT_EQ(boxes.controls[1].bytes, 40U);
  EXPECT_EQ(boxes.controls[1].offset, 16U);
  EXPECT_EQ(boxes.receive(1, 2), from(50, 2));
}

TEST(Mail, NobodyWaitsWhenTheHostHasEndedIt) {
  Mailboxes boxes;
  std::thread host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (isthmus_device_control& each : boxes.controls)
      __atomic_store_n(&each.ended, 1, __ATOMIC_RELEASE);
  });
  std::thread sender([&] {
    for (std::uint32_t i = 0; i < mail_slots + 1; ++i)
      boxes.send(1, from(0, 1));
  });
  EXPECT_EQ(boxes.receive(2, 1), Numbers{-1});
  sender.join();
  host.join();
}

}  // namespace
}  // namespace isthmus::kernel::mail_test
