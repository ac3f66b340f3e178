#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "channel/network/port.hpp"

namespace isthmus::network {

/// Keeps what a port tells; fetches or declines offers as it is told to.
class Recorder final : public Events {
 public:
  struct Message {
    PeerId peer;
    std::vector<std::byte> header;
    std::vector<std::byte> bytes;
    std::uint64_t offered = 0;
    OfferId offer = 0;
  };

  void arrived(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> bytes) override {
    messages.push_back({peer, {header.begin(), header.end()}, {bytes.begin(), bytes.end()}});
  }
  void offered(PeerId peer, std::span<const std::byte> header, std::uint64_t bytes, OfferId offer) override {
    messages.push_back({peer, {header.begin(), header.end()}, {}, bytes, offer});
    if (on_offer) on_offer(messages.back());
  }
  void sent(Token token, const Error* error) override { ended[token] = error ? error->text() : ""; }
  void fetched(Token token, const Error* error) override { ended[token] = error ? error->text() : ""; }
  void lost(PeerId peer, const Error& why) override { losses.emplace_back(peer, why.text()); }

  std::vector<Message> messages;
  std::map<Token, std::string> ended;  ///< of sends and fetches: the error's text
  std::vector<std::pair<PeerId, std::string>> losses;
  std::function<void(Message&)> on_offer;
};

/// Ranks of a job in one process, each with a port, connected to each other.
class NetworkPorts : public testing::Test {
 protected:
  static constexpr PeerId ranks = 2;

  void SetUp() override { open_all({}); }

  void open_all(const Settings& settings) {
    for (PeerId rank = 0; rank < ranks; ++rank) {
      ports[rank].reset();
      events[rank] = Recorder();
      auto port = open(settings, {rank, ranks}, events[rank]);
      if (!port) GTEST_SKIP() << "UCX IS NOT TESTED: " << port.error().text();
      ports[rank] = std::move(*port);
    }
    for (PeerId rank = 0; rank < ranks; ++rank) {
      const auto connected = ports[rank]->connect(1 - rank, ports[1 - rank]->address());
      ASSERT_TRUE(connected) << connected.error().text();
    }
  }

  unsigned poll() {
    unsigned delivered = 0;
    for (auto& port : ports)
      if (port) delivered += port->poll();
    return delivered;
  }

  /// Polls until `condition` holds; whether it did.
  template <class Condition>
  bool wait(Condition condition, std::chrono::seconds limit = std::chrono::seconds(20)) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      poll();
      if (std::chrono::steady_clock::now() > until) return false;
    }
    return true;
  }

  static std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> content(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      content[i] = static_cast<std::byte>(i * 31 + i / 255 + seed);
    return content;
  }

  static std::span<const std::byte> header_of(const std::uint32_t& number) {
    return std::as_bytes(std::span(&number, 1));
  }

  std::unique_ptr<Port> ports[ranks];
  Recorder events[ranks];
};

}  // namespace isthmus::network
