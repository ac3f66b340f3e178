#pragma once

#include <cstdint>

#include "comm/communicator.hpp"

namespace isthmus::coll {

class Driver;

/// One for each collective, as the tag of its messages where it blocks: the order of collectives on a
/// communicator keeps successive calls apart (MPI 5.0, section 6.14), the tag keeps mistaken ones from
/// mixing.
enum class Tag : int {
  barrier = 1,
  bcast,
  gather,
  scatter,
  allgather,
  alltoall,
  reduce,
  allreduce,
  reduce_scatter,
  scan,
  neighbor,
  set_up,  ///< of the shared area of a communicator
  lanes,   ///< the same for what does not block
};

// Tags of the collective context, from its start to `agree_tag` (circle.hpp). A lane that many others have
// been opened since has its tag again.
inline constexpr int lane_tags = 0x0100'0000;
inline constexpr int nonblocking_tag = 0x0100'0000;
inline constexpr int persistent_tag = nonblocking_tag + lane_tags;
/// Added for messages within one group of an intercommunicator.
inline constexpr int own_group_tags = persistent_tag + lane_tags;
inline constexpr int checking_tag = 2 * own_group_tags;

/// What keeps the messages of one collective from those of all others that are under way: a tag, and the
/// driver that resumes its flow. All members open a communicator's lanes in the same order.
struct Lane {
  enum class Kind : std::uint8_t { blocking, nonblocking, persistent, apart };

  int tag;
  Driver* driver;  ///< null: the blocking lane, of which there is one
  Kind kind;
  std::uint32_t number;  ///< of nonblocking and of persistent ones, in the order in which they were opened

  /// The blocking lane.
  constexpr Lane(Tag blocking) noexcept
      : tag(static_cast<int>(blocking)), driver(nullptr), kind(Kind::blocking), number(0) {}
  /// For one nonblocking call.
  static Lane nonblocking(Communicator& comm, Driver& driver) noexcept {
    return numbered(nonblocking_tag, comm.nonblocking_lanes++, driver, Kind::nonblocking);
  }
  /// For all starts of one persistent operation, which may be started in another order elsewhere.
  static Lane persistent(Communicator& comm, Driver& driver) noexcept {
    return numbered(persistent_tag, comm.persistent_lanes++, driver, Kind::persistent);
  }
  /// For what is said before a collective that is the `number`-th of all (`checked.hpp`). Null: blocking.
  static Lane checking(std::uint32_t number, Driver* driver) noexcept {
    Lane lane(Tag::barrier);
    lane.tag = checking_tag + static_cast<int>(number % lane_tags);
    lane.driver = driver;
    lane.kind = Kind::apart;
    lane.number = number;
    return lane;
  }
  /// For the one collective of this kind that a communicator ever carries out beside the others.
  static Lane apart(Tag tag, Driver& driver) noexcept {
    return {static_cast<int>(tag), driver, Kind::apart, 0};
  }

 private:
  constexpr Lane(int tag, Driver& driver, Kind kind, std::uint32_t number) noexcept
      : tag(tag), driver(&driver), kind(kind), number(number) {}
  static Lane numbered(int first_tag, std::uint32_t number, Driver& driver, Kind kind) noexcept {
    return {first_tag + static_cast<int>(number % lane_tags), driver, kind, number};
  }
};

}  // namespace isthmus::coll
