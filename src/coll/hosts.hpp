#pragma once

#include <cstdint>
#include <span>

#include "coll/coll.hpp"
#include "coll/hierarchy.hpp"
#include "coll/ranks.hpp"

/// The collectives of communicators that span hosts, in two levels: the members of a host work together as on
/// any communicator whose members share memory, and one of them speaks for all between the hosts; or, where
/// there is much to move and hosts have equally many members (`slices`), those of equal index exchange
/// between the hosts what each of them has a share of.
///
/// Arguments as in algorithms.hpp: operands are never `in_place`. Operations that do not commute need
/// `Hierarchy::in_order()`.
namespace isthmus::coll {

/// A communicator and how its members are spread over hosts.
struct Spread {
  Communicator& comm;
  const Hierarchy& hosts;

  [[nodiscard]] bool leads() const { return hosts.local().rank() == 0; }
  /// Among `speakers`, one of each host; the caller is one of them.
  [[nodiscard]] Ranks between(Tag tag, std::span<const int> speakers) const {
    return Ranks::among(comm, tag, speakers, hosts.own_host());
  }
  /// All members, host by host.
  [[nodiscard]] Ranks along(Tag tag) const {
    return Ranks::among(comm, tag, hosts.order(), hosts.begin(hosts.own_host()) + hosts.local().rank());
  }
};

/// What goes through a broadcast between hosts at a time.
inline constexpr std::uint64_t bcast_segment = 128 * 1024;

[[nodiscard]] inline const Datatype& byte_type() {
  return Datatype::basic(Basic::byte);
}

Result<> barrier_leaders(const Spread& all);

/// All of it, then on to the members of each host.
Result<> bcast_leaders(const Spread& all, const Out& data, int root);
/// In segments, so that the hosts and the network work at the same time.
Result<> bcast_segments(const Spread& all, const Out& data, int root);

/// Own blocks have been put in their place before.
Result<> allgather_leaders(const Spread& all, const Out& receive);
Result<> allgather_leaders(const Spread& all, const OutV& receive);
/// Each block crosses to each other host once, and is handed on while the next one is on its way.
Result<> allgather_slices(const Spread& all, const Out& receive);
Result<> allgather_slices(const Spread& all, const OutV& receive);
/// A ring of all members, one host after the other: each block crosses to each other host once.
Result<> allgather_along(const Spread& all, const Out& receive);
Result<> allgather_along(const Spread& all, const OutV& receive);

/// One message from each host to each other one. `send` and `receive` may be the same memory.
Result<> alltoall_leaders(const Spread& all, const In& send, const Out& receive);

Result<> reduce_leaders(const Spread& all, const void* send, void* receive, const Reduction& what, int root);
/// For commutative operations: pieces are reduced in a ring of all members, one host after the other.
Result<> reduce_along(const Spread& all, const void* send, void* receive, const Reduction& what, int root);
Result<> allreduce_leaders(const Spread& all, const void* send, void* receive, const Reduction& what);
Result<> allreduce_slices(const Spread& all, const void* send, void* receive, const Reduction& what);

}  // namespace isthmus::coll
