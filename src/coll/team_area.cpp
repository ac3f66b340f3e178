#include "coll/team_area.hpp"

namespace isthmus::coll {

AreaLayout::AreaLayout(int ranks) noexcept : ranks_(ranks) {
  for (int level = ranks; level > 1 || nodes_ == 0;) {
    level = (level + arity - 1) / arity;
    nodes_ += level;
  }
  const auto n = static_cast<std::uint64_t>(ranks);
  const auto nodes = static_cast<std::uint64_t>(nodes_);
  lines_ = sizeof(AreaHeader);
  finished_ = lines_ + depth * n * sizeof(Line);
  presence_ = finished_ + n * sizeof(Finished);
  node_ = presence_ + n * sizeof(Presence);
  slots_ = node_ + nodes * sizeof(Node);
  node_slots_ = slots_ + depth * n * slot_bytes;
  bytes_ = node_slots_ + 2 * nodes * slot_bytes;
}

}  // namespace isthmus::coll
