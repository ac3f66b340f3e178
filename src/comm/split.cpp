#include "comm/split.hpp"

#include <algorithm>
#include <utility>

namespace isthmus {

std::vector<int> part_of(std::span<const SplitEntry> table, int color) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < table.size(); ++rank)
    if (table[rank].color == color) ranks.push_back(static_cast<int>(rank));
  std::ranges::stable_sort(ranks, {},
                           [table](int rank) { return table[static_cast<std::size_t>(rank)].key; });
  return ranks;
}

Ref<Group> select(const Group& group, std::span<const int> ranks) {
  std::vector<PeerId> members;
  members.reserve(ranks.size());
  for (const int rank : ranks)
    members.push_back(group.process(static_cast<std::uint32_t>(rank)));
  return make_ref<Group>(std::move(members), group.session_buffer());
}

}  // namespace isthmus
