#pragma once

#include <cstdint>
#include <span>

#include "coll/call/coll.hpp"
#include "coll/context/hierarchy.hpp"
#include "coll/flow/ranks.hpp"

/// The collectives of communicators that span domains (hosts, or sockets of one host), in two levels: the
/// members of a domain work together as on any communicator, and one of them speaks for all between the
/// domains; or, where there is much to move and domains have equally many members (`slices`), those of equal
/// index exchange between the domains what each of them has a share of. A host that has several sockets makes
/// three levels.
///
/// Arguments as in algorithms.hpp: operands are never `in_place`. Operations that do not commute need
/// `Hierarchy::in_order()`.
namespace isthmus::coll {

/// A communicator and how its members are spread.
struct Spread {
  Communicator& comm;
  const Hierarchy& domains;

  [[nodiscard]] bool leads() const { return domains.local().rank() == 0; }
  /// Among `speakers`, one of each domain; the caller is one of them.
  [[nodiscard]] Ranks between(Tag tag, std::span<const int> speakers) const {
    return Ranks::among(comm, tag, speakers, domains.own_domain());
  }
  /// All members, domain by domain.
  [[nodiscard]] Ranks along(Tag tag) const {
    return Ranks::among(comm, tag, domains.order(),
                        domains.begin(domains.own_domain()) + domains.local().rank());
  }
};

/// What goes through a broadcast between domains at a time.
inline constexpr std::uint64_t bcast_segment = 64 * 1024;

[[nodiscard]] inline const Datatype& byte_type() {
  return Datatype::basic(Basic::byte);
}

Result<> barrier_leaders(const Spread& all);

/// All of it, then on to the members of each domain.
Result<> bcast_leaders(const Spread& all, const Out& data, int root);
/// In segments, so that copies within domains and between them overlap.
Result<> bcast_segments(const Spread& all, const Out& data, int root);

/// Own blocks have been put in their place before.
Result<> allgather_leaders(const Spread& all, const Out& receive);
Result<> allgather_leaders(const Spread& all, const OutV& receive);
/// Each block crosses to each other domain once, and is handed on while the next one is on its way.
Result<> allgather_slices(const Spread& all, const Out& receive);
Result<> allgather_slices(const Spread& all, const OutV& receive);
/// A ring of all members, one domain after the other: each block crosses to each other domain once.
Result<> allgather_along(const Spread& all, const Out& receive);
Result<> allgather_along(const Spread& all, const OutV& receive);

/// One message from each domain to each other one. `send` and `receive` may be the same memory.
Result<> alltoall_leaders(const Spread& all, const In& send, const Out& receive);

Result<> reduce_leaders(const Spread& all, const void* send, void* receive, const Reduction& what, int root);
/// For commutative operations: pieces are reduced in a ring of all members, one domain after the other.
Result<> reduce_along(const Spread& all, const void* send, void* receive, const Reduction& what, int root);
Result<> allreduce_leaders(const Spread& all, const void* send, void* receive, const Reduction& what);
Result<> allreduce_slices(const Spread& all, const void* send, void* receive, const Reduction& what);

}  // namespace isthmus::coll
