#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "datatype/make/construct.hpp"
#include "failing_new.hpp"
#include "loss_ranks.hpp"

/// Messages each way between two ranks, while memory runs out at one of them.
namespace isthmus::testing_ranks {

using testing_memory::Shortage;

inline constexpr long most = 2000;

/// Memory that the processor does not reach.
class Device {
 public:
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* data) = 0;
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;

 protected:
  ~Device() = default;
};

/// A buffer on a device, or in the memory of the host, with a copy there that the test sees.
class Room {
 public:
  Room(Device* device, std::vector<std::byte> content) : device_(device), seen_(std::move(content)) {
    if (!device_) return;
    data_ = device_->allocate(seen_.size());
    device_->copy(data_, seen_.data(), seen_.size());
  }
  Room(Room&& other) noexcept
      : device_(other.device_), seen_(std::move(other.seen_)), data_(std::exchange(other.data_, nullptr)) {}
  Room& operator=(Room&&) = delete;
  ~Room() {
    if (data_) device_->free(data_);
  }

  [[nodiscard]] std::byte* data() { return data_ ? data_ : seen_.data(); }
  /// What is in it now.
  const std::vector<std::byte>& look() {
    if (data_) device_->copy(seen_.data(), data_, seen_.size());
    return seen_;
  }

 private:
  Device* device_;
  std::vector<std::byte> seen_;
  std::byte* data_ = nullptr;
};

/// A message each way.
struct Flight {
  std::uint64_t bytes;
  SendMode mode = SendMode::standard;
  bool is_early = false;         ///< it is there before its receive
  bool has_gaps = false;         ///< where it is received
  std::uint64_t wanted = bytes;  ///< at most
  Device* from = nullptr;        ///< null: the host's memory
  Device* to = nullptr;
};

inline const Datatype& gaps() {
  static const Ref<Datatype> type = [] {
    auto made = vector_type(2, 4, 8, Datatype::basic(Basic::byte), Form::small);
    EXPECT_TRUE((*made)->commit());
    return *made;
  }();
  return *type;
}

/// A message and what has become of it.
struct Carried {
  Flight flight;
  int tag;
  Room out, in;
  std::vector<std::byte> when_it_ended{};
  Request* send = nullptr;
  Request* receive = nullptr;
  Status sent{}, received{};

  Carried(const Flight& of, int number, int from)
      : flight(of),
        tag(number),
        out(of.from, message(static_cast<std::uint64_t>(number * 2 + from), of.bytes)),
        in(of.to, std::vector<std::byte>((of.has_gaps ? 3 : 1) * of.bytes + 64, std::byte{0x5A})) {}

  [[nodiscard]] Payload payload() { return Payload::of(out.data(), flight.bytes); }
  [[nodiscard]] Payload room() {
    if (flight.has_gaps) return Payload::of(in.data(), static_cast<std::int64_t>(flight.bytes / 8), gaps());
    return Payload::of(in.data(), flight.wanted);
  }
  /// Of what had come when it ended.
  [[nodiscard]] std::byte at(std::uint64_t i) const {
    return when_it_ended[flight.has_gaps ? i / 8 * 12 + (i % 8 < 4 ? i % 8 : i % 8 + 4) : i];
  }
};

/// Calls again what has had no memory.
template <class Call>
auto insist(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return call();
  }
}

inline void start_sends(const Rank& rank, std::vector<Carried>& all) {
  const int peer = 1 - rank.id();
  for (Carried& each : all)
    each.send = insist(
        [&] { return rank.engine.start_send(rank.to(peer, each.tag), each.payload(), each.flight.mode); });
}

inline void start_receives(const Rank& rank, std::vector<Carried>& all, bool early) {
  for (Carried& each : all)
    if (each.flight.is_early == early)
      each.receive =
          insist([&] { return rank.engine.start_receive(rank.world, 1 - rank.id(), each.tag, each.room()); });
}

inline bool is_an_end(int error) {
  return error == 0 || error == static_cast<int>(ErrorClass::no_mem) ||
         error == static_cast<int>(ErrorClass::proc_aborted);
}

inline void check_end(const Carried& each, int from) {
  EXPECT_TRUE(is_an_end(each.sent.error)) << each.tag << ": " << each.sent.error;
  const bool is_cut = each.flight.wanted < each.flight.bytes;
  if (is_cut && each.received.error == static_cast<int>(ErrorClass::truncate)) return;
  EXPECT_TRUE(is_an_end(each.received.error)) << each.tag << ": " << each.received.error;
  if (each.received.error != 0) return;
  std::uint64_t i = 0;
  while (i < each.flight.wanted && each.at(i) == pattern(static_cast<std::uint64_t>(each.tag * 2 + from), i))
    ++i;
  EXPECT_EQ(i, each.flight.wanted) << "message " << each.tag << " of " << each.flight.bytes << " bytes";
}

/// All of them, both ways; whether an allocation has failed.
inline bool carry(const Rank& rank, std::vector<Carried>& all, long number) {
  bool was_hit = false;
  {
    const Shortage shortage(number);
    start_receives(rank, all, false);
    start_sends(rank, all);
    // What comes early has come when a later message has.
    for (const Carried& each : all)
      if (!each.flight.is_early) rank.engine.wait(*each.receive);
    start_receives(rank, all, true);
    for (const Carried& each : all) {
      rank.engine.wait(*each.receive);
      if (each.send) rank.engine.wait(*each.send);
    }
    was_hit = shortage.was_felt();
  }
  for (Carried& each : all) {
    each.received = rank.finish(each.receive);
    each.sent = rank.finish(each.send);
    each.when_it_ended = each.in.look();
    check_end(each, 1 - rank.id());
  }
  return was_hit;
}

/// Carries the messages of `flights` again and again, in a new job each time, in which the next allocation of
/// rank 0 fails, until all have been tried.
inline void exhaust(std::span<const Flight> flights, std::uint32_t hosts, const Settings& settings) {
  static_cast<void>(gaps());
  bool is_over = false;
  for (long number = 1; !is_over && !testing::Test::HasFailure(); ++number) {
    ASSERT_LT(number, most);
    SCOPED_TRACE(number);
    std::atomic<bool> was_hit = false;
    std::vector<Carried> carried[2];
    run_with_deaths(
        2, wire::IdlePolicy::sleep,
        [&](const Rank& rank) {
          auto& mine = carried[rank.id()];
          int tag = 0;
          for (const Flight& each : flights)
            mine.emplace_back(each, ++tag, rank.id());
          if (carry(rank, mine, rank.id() == 0 ? number : 0)) was_hit = true;
          return true;
        },
        hosts, settings);
    for (auto& mine : carried)
      for (Carried& each : mine)
        EXPECT_TRUE(each.in.look() == each.when_it_ended)
            << "message " << each.tag << " is written after its end";
    is_over = !was_hit;
  }
}

}  // namespace isthmus::testing_ranks
