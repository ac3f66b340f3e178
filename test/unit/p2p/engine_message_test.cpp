// What arrives is what was sent: every size, both idle policies, every path, expected and unexpected.
#include <gtest/gtest.h>

#include <cstring>

#include "datatype/make/construct.hpp"
#include "engine_ranks.hpp"

namespace isthmus::engine_message_test {
namespace {

using namespace testing_ranks;

class EngineMessage : public testing::TestWithParam<Conditions> {};

INSTANTIATE_TEST_SUITE_P(, EngineMessage, testing::ValuesIn(all_conditions()),
                         [](const auto& info) { return std::string(info.param.name); });

constexpr int data_tag = 1, ready_tag = 2;

void expect_message(const Status& status, int source, int tag, const std::vector<std::byte>& data,
                    std::uint64_t seed, std::uint64_t bytes) {
  EXPECT_EQ(status.source, source) << bytes << " bytes";
  EXPECT_EQ(status.tag, tag) << bytes << " bytes";
  EXPECT_EQ(status.error, 0) << bytes << " bytes";
  EXPECT_EQ(status.bytes, bytes);
  EXPECT_EQ(first_wrong(data.data(), seed, bytes), bytes) << bytes << " bytes";
}

TEST_P(EngineMessage, ArrivesWhereAReceiveWaits) {
  run(2, GetParam(), [&](const Rank& rank) {
    for (const SendMode mode : {SendMode::standard, SendMode::synchronous})
      for (const std::uint64_t bytes : sizes(GetParam())) {
        if (rank.id() == 0) {
          rank.hear(1, ready_tag);
          EXPECT_EQ(rank.send(1, data_tag, message(bytes, bytes), mode), 0);
        } else {
          std::vector<std::byte> data(bytes);
          Request* receive = rank.start_receive(0, data_tag, data);
          rank.tell(0, ready_tag);
          expect_message(rank.finish(receive), 0, data_tag, data, bytes, bytes);
        }
      }
    EXPECT_EQ(rank.engine.requests().living(), 0U);
  });
}

TEST_P(EngineMessage, ArrivesBeforeItsReceive) {
  run(2, GetParam(), [&](const Rank& rank) {
    for (const SendMode mode : {SendMode::standard, SendMode::synchronous})
      for (const std::uint64_t bytes : sizes(GetParam())) {
        if (rank.id() == 0) {
          const auto data = message(bytes, bytes);
          Request* send = rank.start_send(1, data_tag, data, mode);
          rank.tell(1, ready_tag);
          if (mode == SendMode::synchronous) {
            // The peer receives only after it has heard that this has been looked at.
            for (int i = 0; i < 20; ++i)
              rank.engine.progress();
            EXPECT_FALSE(send->complete) << bytes << " bytes";
          }
          rank.tell(1, ready_tag);
          EXPECT_EQ(rank.finish(send).error, 0);
        } else {
          rank.hear(0, ready_tag);
          const UnexpectedMessage* found = rank.engine.probe(rank.world, 0, data_tag);
          ASSERT_TRUE(found) << "messages do not overtake: it came before the other";
          EXPECT_EQ(Engine::status_of(*found).bytes, bytes);
          rank.hear(0, ready_tag);
          std::vector<std::byte> data(bytes);
          expect_message(rank.receive(0, data_tag, data), 0, data_tag, data, bytes, bytes);
        }
      }
  });
}

TEST_P(EngineMessage, OfSeveralMegabytesArrives) {
  run(2, GetParam(), [&](const Rank& rank) {
    for (const std::uint64_t bytes : {1U << 20, (4U << 20) + 1}) {
      if (rank.id() == 0) {
        EXPECT_EQ(rank.send(1, data_tag, message(5, bytes)), 0);
      } else {
        std::vector<std::byte> data(bytes);
        expect_message(rank.receive(0, data_tag, data), 0, data_tag, data, 5, bytes);
      }
    }
  });
}

TEST_P(EngineMessage, IsCutToTheReceiversRoomAndNothingBeyondIsTouched) {
  run(2, GetParam(), [&](const Rank& rank) {
    for (const bool expected : {false, true})
      for (const std::uint64_t bytes : sizes(GetParam()))
        for (const std::uint64_t room : {bytes / 2, bytes + 9}) {
          if (rank.id() == 0) {
            if (expected) rank.hear(1, ready_tag);
            const auto data = message(bytes, bytes);
            Request* send = rank.start_send(1, data_tag, data);
            if (!expected) rank.tell(1, ready_tag);
            EXPECT_EQ(rank.finish(send).error, 0);
          } else {
            if (!expected) rank.hear(0, ready_tag);
            std::vector<std::byte> data(room + 16, std::byte{0xee});
            Request* receive =
                rank.engine.start_receive(rank.world, 0, data_tag, Payload::of(data.data(), room));
            if (expected) rank.tell(0, ready_tag);
            const Status status = rank.finish(receive);
            const std::uint64_t taken = std::min(bytes, room);
            EXPECT_EQ(status.error, taken < bytes ? static_cast<int>(ErrorClass::truncate) : 0) << bytes;
            EXPECT_EQ(status.bytes, taken);
            EXPECT_EQ(first_wrong(data.data(), bytes, taken), taken);
            for (std::uint64_t i = taken; i < data.size(); ++i)
              ASSERT_EQ(data[i], std::byte{0xee}) << bytes << " bytes into " << room << ", at " << i;
          }
        }
  });
}

/// A type of `blocks` blocks of 12 bytes with gaps of 8, and memory for one element of it.
class Gaps {
 public:
  explicit Gaps(std::int64_t blocks)
      : type_(make(blocks)), memory_(static_cast<std::size_t>(blocks) * 20, filler) {}

  [[nodiscard]] Payload payload() { return Payload::of(memory_.data(), 1, *type_); }
  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < memory_.size() / 20 * 12; ++i)
      memory_[i / 12 * 20 + i % 12] = pattern(seed, i);
  }
  /// Whether the first `bytes` of data are the message's and all else is untouched.
  [[nodiscard]] bool has(std::uint64_t seed, std::uint64_t bytes) const {
    for (std::size_t at = 0; at < memory_.size(); ++at) {
      const std::size_t i = at / 20 * 12 + at % 20;
      if (memory_[at] != (at % 20 < 12 && i < bytes ? pattern(seed, i) : filler)) return false;
    }
    return true;
  }

 private:
  static constexpr std::byte filler{0xcc};
  static Ref<Datatype> make(std::int64_t blocks) {
    auto type = hvector_type(blocks, 3, 20, Datatype::basic(Basic::int32), Form::small);
    EXPECT_TRUE(type);
    EXPECT_TRUE((*type)->commit());
    return *type;
  }

  Ref<Datatype> type_;
  std::vector<std::byte> memory_;
};

TEST_P(EngineMessage, WithGapsOnEitherSideArrives) {
  const std::uint64_t eager = eager_limit(GetParam());
  run(2, GetParam(), [&](const Rank& rank) {
    for (const std::uint64_t wanted :
         {24UL, 36UL, 600UL, 2040UL, 2052UL, eager - 12, eager + 12, 70'000UL, 600'000UL}) {
      const auto blocks = static_cast<std::int64_t>(std::max<std::uint64_t>(wanted / 12, 2));
      const std::uint64_t bytes = static_cast<std::uint64_t>(blocks) * 12;
      for (int variant = 0; variant < 12; ++variant) {
        const bool send_gaps = variant % 2 != 0, receive_gaps = variant / 2 % 2 != 0;
        const int order = variant / 4;  // expected, unexpected, synchronous
        const SendMode mode = order == 2 ? SendMode::synchronous : SendMode::standard;
        if (rank.id() == 0) {
          if (order == 0) rank.hear(1, ready_tag);
          Gaps gaps(blocks);
          gaps.fill(bytes);
          const auto packed = message(bytes, bytes);
          Request* send = rank.engine.start_send(
              rank.to(1, data_tag), send_gaps ? gaps.payload() : Payload::of(packed.data(), bytes), mode);
          if (order != 0) rank.tell(1, ready_tag);
          EXPECT_EQ(rank.finish(send).error, 0);
        } else {
          Gaps gaps(blocks);
          std::vector<std::byte> packed(bytes);
          if (order != 0) rank.hear(0, ready_tag);
          Request* receive = rank.engine.start_receive(
              rank.world, 0, data_tag, receive_gaps ? gaps.payload() : Payload::of(packed.data(), bytes));
          if (order == 0) rank.tell(0, ready_tag);
          EXPECT_EQ(rank.finish(receive).bytes, bytes);
          EXPECT_TRUE(receive_gaps ? gaps.has(bytes, bytes)
                                   : first_wrong(packed.data(), bytes, bytes) == bytes)
              << bytes << " bytes, variant " << variant;
        }
      }
    }
    EXPECT_EQ(rank.engine.requests().living(), 0U);
  });
}

TEST_P(EngineMessage, LongerThanATypeWithGapsFillsItAndNoMore) {
  run(2, GetParam(), [&](const Rank& rank) {
    for (const std::int64_t blocks : {3, 100, 2000, 20'000}) {
      const std::uint64_t room = static_cast<std::uint64_t>(blocks) * 12;
      if (rank.id() == 0) {
        EXPECT_EQ(rank.send(1, data_tag, message(3, room + 7)), 0);
        EXPECT_EQ(rank.send(1, data_tag, message(4, room - 5)), 0);
      } else {
        Gaps cut(blocks), shorter(blocks);
        const Status first = rank.engine.receive(rank.world, 0, data_tag, cut.payload());
        EXPECT_EQ(first.error, static_cast<int>(ErrorClass::truncate));
        EXPECT_EQ(first.bytes, room);
        EXPECT_TRUE(cut.has(3, room));
        const Status second = rank.engine.receive(rank.world, 0, data_tag, shorter.payload());
        EXPECT_EQ(second.error, 0);
        EXPECT_EQ(second.bytes, room - 5);
        EXPECT_TRUE(shorter.has(4, room - 5));
      }
    }
  });
}

TEST_P(EngineMessage, ToOneselfArrives) {
  run(1, GetParam(), [&](const Rank& rank) {
    for (const std::uint64_t bytes : sizes(GetParam()))
      for (const SendMode mode : {SendMode::standard, SendMode::synchronous}) {
        const auto sent = message(bytes, bytes);
        std::vector<std::byte> data(bytes);
        Request* receive = rank.start_receive(0, data_tag, data);
        EXPECT_EQ(rank.start_send(0, data_tag, sent, mode), nullptr) << "a receive waits for it";
        expect_message(rank.finish(receive), 0, data_tag, data, bytes, bytes);

        data.assign(bytes, std::byte{0});
        Request* send = rank.start_send(0, data_tag, sent, mode);
        if (mode == SendMode::synchronous) {
          ASSERT_TRUE(send);
          EXPECT_FALSE(send->complete);
        }
        expect_message(rank.receive(any_source, any_tag, data), 0, data_tag, data, bytes, bytes);
        EXPECT_TRUE(!send || send->complete);
        rank.finish(send);

        std::vector<std::byte> half(bytes / 2);
        send = rank.start_send(0, data_tag, sent, mode);
        EXPECT_EQ(rank.receive(0, data_tag, half).error,
                  bytes > 0 ? static_cast<int>(ErrorClass::truncate) : 0);
        EXPECT_EQ(first_wrong(half.data(), bytes, bytes / 2), bytes / 2);
        rank.finish(send);
      }
    for (const std::int64_t blocks : {3, 1000, 10'000})
      for (int variant = 0; variant < 4; ++variant) {
        Gaps from(blocks), to(blocks);
        from.fill(9);
        const std::uint64_t bytes = static_cast<std::uint64_t>(blocks) * 12;
        std::vector<std::byte> flat(bytes);
        const Payload in = variant % 2 != 0 ? to.payload() : Payload::of(flat.data(), bytes);
        Request* receive = variant / 2 != 0 ? rank.engine.start_receive(rank.world, 0, 4, in) : nullptr;
        Request* send = rank.engine.start_send(rank.to(0, 4), from.payload());
        if (!receive) receive = rank.engine.start_receive(rank.world, 0, 4, in);
        EXPECT_EQ(rank.finish(receive).bytes, bytes);
        rank.finish(send);
        EXPECT_TRUE(variant % 2 != 0 ? to.has(9, bytes) : first_wrong(flat.data(), 9, bytes) == bytes);
      }
    EXPECT_EQ(rank.engine.requests().living(), 0U);
  });
}

}  // namespace
}  // namespace isthmus::engine_message_test
