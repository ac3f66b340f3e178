#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/call/coll.hpp"
#include "coll/team/team.hpp"
#include "p2p/message/message.hpp"

/// Collectives of any length through memory that all members share: no system call, whoever reads copies from
/// the caches of others, and needs nobody's permission. Arguments as in flat.hpp; `stage` is what
/// `Team::stage` gave for the size that is named.
namespace isthmus::coll {

/// In pieces through the root's slots, several of which are under way.
Result<> bcast_staged(Team& team, const Payload& data, int root);

/// In pieces through the members' slots, as `bcast_staged`.
Result<> allgather_staged(Team& team, const In& send, const Out& receive);
Result<> allgather_staged(Team& team, const In& send, const OutV& receive);

/// `stage`: what each member sends.
Result<> alltoall_staged(Team& team, const In& send, const Out& receive, std::byte* stage);

/// Everybody reduces its share of each piece. `receive` is used at `root` alone, or by all if that is
/// `everybody`. `stage`: `reduce_stage_bytes`.
Result<> reduce_staged(Team& team, const void* send, void* receive, const Reduction& what, int root,
                       std::byte* stage);
[[nodiscard]] std::uint64_t reduce_stage_bytes(const Reduction& what) noexcept;

}  // namespace isthmus::coll
