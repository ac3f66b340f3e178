// Kernels of members that meet in each other's memory, in plain memory: a member is a thread, which runs its
// blocks one after the other as a GPU with room for one would.
#include "kernels/body/meet/packets.hpp"
#include "kernels/body/meet/pieces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

namespace isthmus::kernel::meet_test {
namespace {

using Numbers = std::vector<std::int32_t>;

/// The rooms of members, and what runs there.
class Rooms {
 public:
  struct Kind {
    std::uint32_t members;
    bool in_pieces;
    friend std::ostream& operator<<(std::ostream& out, const Kind& kind) {
      return out << kind.members << (kind.in_pieces ? " in pieces" : " in packets");
    }
  };

  explicit Rooms(Kind kind) : in_pieces_(kind.in_pieces) {
    for (std::uint32_t i = 0; i < kind.members; ++i)
      rooms_.emplace_back(meet_room_bytes(kind.members) / sizeof(Packet));
  }
  [[nodiscard]] std::uint32_t members() const { return static_cast<std::uint32_t>(rooms_.size()); }
  [[nodiscard]] MeetArguments arguments(std::uint32_t rank) {
    MeetArguments work{};
    work.rank = rank;
    work.members = members();
    work.ended = &ended;
    for (std::uint32_t i = 0; i < members(); ++i)
      work.rooms[i] = reinterpret_cast<Byte*>(rooms_[i].data());
    return work;
  }
  /// `body(rank)` on a thread each.
  void all(const std::function<void(std::uint32_t)>& body) const {
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < members(); ++i)
      threads.emplace_back(body, i);
    for (std::thread& each : threads)
      each.join();
  }
  void move(const MeetArguments& work) const { launch(work, meet_move, 0); }
  template <class T, class Operation>
  void reduce(const MeetArguments& work) const {
    launch(work, meet_reduce<T, Operation>, 1 + number_of<T, Operation>());
  }
  device::u64 ended = 0;

 private:
  template <class T, class Operation>
  static std::uint32_t number_of() {
    std::uint32_t i = 0;
#define ISTHMUS_NUMBER_(operation, type, operation_name, type_name)                        \
  if constexpr (std::is_same_v<T, type> && std::is_same_v<Operation, operation>) return i; \
  ++i;
    ISTHMUS_REDUCE_KERNELS(ISTHMUS_NUMBER_)
#undef ISTHMUS_NUMBER_
    ADD_FAILURE() << "there is no such kernel";
    return i;
  }
  void launch(MeetArguments work, void (*in_packets)(const MeetArguments&), std::uint32_t combine) const {
    if (in_pieces_) {
      work.piece = piece_bytes(work.longest, work.members);
      work.combine = combine;
    }
    // Few, so that each has several pieces.
    const std::uint32_t blocks = in_pieces_ ? std::min(meet_grid(work), 3U) : meet_grid(work);
    for (std::uint32_t i = 0; i < blocks; ++i) {
      device::twin::place() = {i, blocks};
      (in_pieces_ ? meet_in_pieces : in_packets)(work);
    }
  }

  const bool in_pieces_;
  std::vector<std::vector<Packet>> rooms_;
};

MeetSide side(Numbers& numbers, std::size_t first, std::size_t count) {
  return {count == 0 ? nullptr : reinterpret_cast<Byte*>(numbers.data() + first), count * 4};
}

Numbers of_rank(std::uint32_t rank, std::size_t count) {
  Numbers numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] = static_cast<std::int32_t>(1000 * rank + i);
  return numbers;
}

constexpr std::size_t lengths[]{0, 1, 2, 3, 4, 5, 7, 4095, 4096, 4099, 140'000, 3};

class Meet : public testing::TestWithParam<Rooms::Kind> {};

TEST_P(Meet, AllGetWhatEachHasWhateverTheLengthBefore) {
  Rooms rooms(GetParam());
  rooms.all([&](std::uint32_t rank) {
    for (const std::size_t count : lengths) {
      Numbers mine = of_rank(rank, count), all(count * rooms.members(), -1);
      MeetArguments work = rooms.arguments(rank);
      for (std::uint32_t i = 0; i < rooms.members(); ++i) {
        work.out[i] = side(mine, 0, count);
        work.in[i] = side(all, i * count, count);
      }
      work.longest = count * 4;
      rooms.move(work);
      for (std::uint32_t i = 0; i < rooms.members(); ++i)
        EXPECT_TRUE(std::ranges::equal(of_rank(i, count), std::span(all).subspan(i * count, count))) << count;
    }
  });
}

/// Nobody else sends anything, but says that it is here.
TEST_P(Meet, OneSendsToAll) {
  Rooms rooms(GetParam());
  rooms.all([&](std::uint32_t rank) {
    for (std::uint32_t round = 0; round < 20; ++round) {
      const std::uint32_t root = round % rooms.members();
      const std::size_t count = lengths[round % 8];
      Numbers data = rank == root ? of_rank(round, count) : Numbers(count, -1);
      MeetArguments work = rooms.arguments(rank);
      if (rank == root) std::fill_n(work.out, rooms.members(), side(data, 0, count));
      work.in[root] = side(data, 0, count);
      work.longest = count * 4;
      rooms.move(work);
      EXPECT_EQ(data, of_rank(round, count));
    }
  });
}

/// Each gets another part of what all have, in place too, of lengths of their own.
TEST_P(Meet, EachGetsItsOwnInPlace) {
  Rooms rooms(GetParam());
  rooms.all([&](std::uint32_t rank) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{4099}, std::size_t{70'001}}) {
      Numbers data = of_rank(rank, count * rooms.members());
      MeetArguments work = rooms.arguments(rank);
      for (std::uint32_t i = 0; i < rooms.members(); ++i)
        work.out[i] = work.in[i] = side(data, i * count, count);
      work.longest = count * 4;
      rooms.move(work);
      for (std::uint32_t i = 0; i < rooms.members(); ++i) {
        const Numbers theirs = of_rank(i, count * rooms.members());
        EXPECT_TRUE(std::ranges::equal(std::span(theirs).subspan(rank * count, count),
                                       std::span(data).subspan(i * count, count)));
      }
    }
  });
}

/// In place only where all parts are as long: else a result lies where other blocks still have to send from.
TEST_P(Meet, SumsOfParts) {
  Rooms rooms(GetParam());
  rooms.all([&](std::uint32_t rank) {
    for (const bool alike : {true, false}) {
      std::size_t total = 0;
      std::vector<std::size_t> counts, begins;
      for (std::uint32_t i = 0; i < rooms.members(); ++i) {
        counts.push_back(alike ? 20'003 : i == 1 ? 0 : 5000 * i + 1);
        begins.push_back(total);
        total += counts.back();
      }
      Numbers data = of_rank(rank, total), apart(counts[rank], -1);
      MeetArguments work = rooms.arguments(rank);
      for (std::uint32_t i = 0; i < rooms.members(); ++i) {
        work.out[i] = side(data, begins[i], counts[i]);
        work.longest = std::max<std::uint64_t>(work.longest, counts[i] * 4);
      }
      Numbers& result = alike ? data : apart;
      work.result = side(result, 0, counts[rank]);
      rooms.reduce<std::uint32_t, Sum>(work);
      const auto members = static_cast<std::int32_t>(rooms.members());
      for (std::size_t i = 0; i < counts[rank]; ++i)
        ASSERT_EQ(result[i],
                  members * static_cast<std::int32_t>(begins[rank] + i) + 1000 * members * (members - 1) / 2);
    }
  });
}

/// Whole or in shares: the same bits, by the order of ranks.
template <class T, class Operation>
void check_allreduce(const Rooms::Kind& kind, const std::function<T(std::uint32_t, std::size_t)>& value,
                     bool in_place) {
  Rooms rooms(kind);
  const std::uint32_t members = kind.members;
  rooms.all([&](std::uint32_t rank) {
    for (const bool shared : {false, true})
      for (const std::size_t count : {std::size_t{1}, std::size_t{9}, std::size_t{20'000}}) {
        std::vector<T> send(count), expected(count);
        for (std::size_t i = 0; i < count; ++i) {
          send[i] = value(rank, i);
          expected[i] = value(0, i);
          for (std::uint32_t r = 1; r < members; ++r)
            expected[i] = Operation::of(expected[i], value(r, i));
        }
        std::vector<T> receive = in_place ? send : std::vector<T>(count);
        auto* const from = reinterpret_cast<Byte*>(in_place ? receive.data() : send.data());
        auto* const to = reinterpret_cast<Byte*>(receive.data());
        MeetArguments work = rooms.arguments(rank);
        const std::size_t bytes = count * sizeof(T);
        const std::size_t share =
            shared ? ((count + members - 1) / members * sizeof(T) + meet_unit - 1) / meet_unit * meet_unit
                   : bytes;
        for (std::uint32_t i = 0; i < members; ++i) {
          const std::size_t begin = shared ? std::min(share * i, bytes) : 0;
          const std::size_t length = std::min(share, bytes - begin);
          work.out[i] = {from + begin, length};
          work.in[i] = {to + begin, length};
        }
        work.result = shared ? work.in[rank] : MeetSide{to, bytes};
        work.longest = work.out[0].bytes;
        work.shared = shared ? 1 : 0;
        rooms.reduce<T, Operation>(work);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_TRUE(receive[i] == expected[i]) << "element " << i << " of " << count;
      }
  });
}

TEST_P(Meet, SumsOfNumbersThatRound) {
  check_allreduce<double, Sum>(
      GetParam(), [](std::uint32_t rank, std::size_t i) { return 1.0 / (3 + rank + 7.0 * double(i)); },
      false);
  check_allreduce<float, Sum>(
      GetParam(), [](std::uint32_t rank, std::size_t i) { return 1.0F / (3 + float(rank) + float(i)); },
      true);
}

TEST_P(Meet, ElementsOfOneByteAndOfSixteen) {
  check_allreduce<std::uint8_t, Maximum>(
      GetParam(), [](std::uint32_t rank, std::size_t i) { return std::uint8_t(97 * rank + 31 * i); }, true);
  check_allreduce<Wide, Product>(
      GetParam(), [](std::uint32_t rank, std::size_t i) { return Wide(rank + 2) * Wide(i) + 3; }, false);
}

INSTANTIATE_TEST_SUITE_P(Members, Meet,
                         testing::Values(Rooms::Kind{2, false}, Rooms::Kind{3, false}, Rooms::Kind{5, false},
                                         Rooms::Kind{8, false}, Rooms::Kind{2, true}, Rooms::Kind{3, true},
                                         Rooms::Kind{5, true}));

/// A member that never comes: the others go when the host says so, and say nothing of it.
class MeetEnded : public testing::TestWithParam<Rooms::Kind> {};
TEST_P(MeetEnded, WaitsAreOver) {
  Rooms rooms(GetParam());
  Numbers mine = of_rank(0, 10), all(20, -1);
  MeetArguments work = rooms.arguments(0);
  for (std::uint32_t i = 0; i < 2; ++i) {
    work.out[i] = side(mine, 0, 10);
    work.in[i] = side(all, i * 10, 10);
  }
  work.longest = 40;
  std::thread host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    __atomic_store_n(&rooms.ended, 1, __ATOMIC_RELEASE);
  });
  rooms.move(work);
  host.join();
  EXPECT_EQ(all[10], -1);
}
INSTANTIATE_TEST_SUITE_P(Two, MeetEnded, testing::Values(Rooms::Kind{2, false}, Rooms::Kind{2, true}));

/// Data that lie at no multiple of 16 bytes, as parts of something often do.
TEST(MeetPieces, FitAnywhere) {
  Rooms rooms({2, true});
  rooms.all([&](std::uint32_t rank) {
    for (std::size_t shift = 0; shift < 5; ++shift) {
      constexpr std::size_t count = 70'003;
      Numbers mine = of_rank(rank, count + shift), sums(count + 2 * shift, -1);
      MeetArguments work = rooms.arguments(rank);
      for (std::uint32_t i = 0; i < 2; ++i)
        work.out[i] = side(mine, shift, count);
      work.result = side(sums, 2 * shift, count);
      work.longest = count * 4;
      rooms.reduce<std::uint32_t, Sum>(work);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(sums[2 * shift + i], static_cast<std::int32_t>(1000 + 2 * (shift + i)));
    }
  });
}

/// Short data take short pieces, so that more blocks have one.
TEST(MeetPieces, AreLongerForMore) {
  EXPECT_EQ(piece_bytes(1, 2), short_piece);
  EXPECT_EQ(piece_bytes(short_piece * piece_blocks, 2), short_piece);
  EXPECT_EQ(piece_bytes(short_piece * piece_blocks + 1, 2), most_piece);
  for (std::uint32_t members = 2; members <= meet_members; ++members) {
    EXPECT_EQ(piece_bytes(std::uint64_t{1} << 40U, members), piece_slot_bytes(members));
    EXPECT_LE(piece_bytes(1, members), piece_slot_bytes(members));
  }
}

}  // namespace
}  // namespace isthmus::kernel::meet_test
