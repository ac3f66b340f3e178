#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/group.hpp"
#include "p2p/message/message.hpp"

namespace isthmus {

/// What one process says in a split (MPI 5.0, section 7.4.2). As it crosses the wire.
struct SplitEntry {
  std::int32_t color;  ///< `undefined`: not in any part
  std::int32_t key;
  ContextId proposal;  ///< context for the part whose first member it turns out to be
};
static_assert(sizeof(SplitEntry) == 16);

/// Ranks (positions in `table`, which has the entry of rank i at i) of colour `color`, in the order of their
/// keys, equal keys in the order of ranks.
[[nodiscard]] std::vector<int> part_of(std::span<const SplitEntry> table, int color);

/// The processes of `ranks` in `group`, in that order.
[[nodiscard]] Ref<Group> select(const Group& group, std::span<const int> ranks);

}  // namespace isthmus
