#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "wire/port.hpp"

namespace isthmus::wire::network_address_test {
namespace {

using testing::HasSubstr;

PortAddress example() {
  return {.token = 0x1234'5678'9abc'def0,
          .watch_port = 4711,
          .hosts = {0x0100'007f, 0x0101'4d0a},
          .transport = std::vector<std::byte>(100, std::byte{42})};
}

TEST(NetworkAddress, IsReadAsItWasWritten) {
  const PortAddress address = example();
  const auto read = PortAddress::read(address.write());
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->token, address.token);
  EXPECT_EQ(read->watch_port, address.watch_port);
  EXPECT_EQ(read->hosts, address.hosts);
  EXPECT_EQ(read->transport, address.transport);
}

TEST(NetworkAddress, IsRefusedAtEveryLengthButItsOwn) {
  std::vector<std::byte> bytes = example().write();
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(PortAddress::read(std::span(bytes).first(length))) << length;
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(PortAddress::read(bytes));
}

TEST(NetworkAddress, IsRefusedWithAnyByteChanged) {
  const std::vector<std::byte> bytes = example().write();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::vector<std::byte> changed = bytes;
    changed[at] ^= std::byte{1};
    EXPECT_FALSE(PortAddress::read(changed)) << at;
  }
}

TEST(NetworkAddress, IsNotFoundInNoise) {
  std::mt19937 random(1);
  std::vector<std::byte> noise(300);
  for (std::byte& byte : noise)
    byte = static_cast<std::byte>(random());
  const auto read = PortAddress::read(noise);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), HasSubstr("address of a process"));
}

class NetworkMessage : public testing::Test {
 protected:
  static constexpr std::size_t limit = 64;

  static std::vector<std::byte> message(std::uint8_t header, std::uint16_t inlined, std::size_t follow) {
    const PortEnvelope envelope{
        .token = 1, .sequence = 2, .sender = 3, .header_bytes = header, .kind = {}, .inlined = inlined};
    std::vector<std::byte> bytes(sizeof envelope + follow);
    std::memcpy(bytes.data(), &envelope, sizeof envelope);
    for (std::size_t i = 0; i < follow; ++i)
      bytes[sizeof envelope + i] = static_cast<std::byte>(i);
    return bytes;
  }
};

TEST_F(NetworkMessage, IsSplitIntoHeaderAndBytes) {
  const auto bytes = message(10, 5, 15);
  const auto read = read_port_message(bytes, limit);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->envelope.sender, 3U);
  ASSERT_EQ(read->header.size(), 10U);
  ASSERT_EQ(read->inlined.size(), 5U);
  EXPECT_EQ(read->header[0], std::byte{0});
  EXPECT_EQ(read->inlined[0], std::byte{10});
}

TEST_F(NetworkMessage, IsRefusedWhereItsLengthsContradict) {
  EXPECT_TRUE(read_port_message(message(64, 0, 64), limit));
  EXPECT_FALSE(read_port_message(message(65, 0, 65), limit));
  EXPECT_FALSE(read_port_message(message(10, 5, 14), limit));
  EXPECT_FALSE(read_port_message(message(10, 5, 16), limit));
  EXPECT_FALSE(read_port_message(message(0xffff, 0xffff, 0), limit));
  const auto bare = message(0, 0, 0);
  EXPECT_TRUE(read_port_message(bare, limit));
  EXPECT_FALSE(read_port_message(std::span(bare).first(23), limit));
  EXPECT_FALSE(read_port_message({}, limit));
}

}  // namespace
}  // namespace isthmus::wire::network_address_test
