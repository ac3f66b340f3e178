#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "coll/team/team.hpp"

namespace isthmus::coll {

/// A meeting at one node of a team's tree, as its last child finds it: the children are the seats
/// or the lower nodes from `first` to `last`, all of which have arrived.
struct Meeting {
  std::uint64_t number;
  int node;
  bool of_seats;
  int first;
  int last;
};

/// All members meet: returns once everybody has arrived. The last to arrive at a node runs `combine(meeting)`
/// for it, lower nodes first, so that one rank's turn on a core is all that each rank needs; what it wrote is
/// visible to all afterwards. If one of them returns false, so does this for everybody; it
/// also does for a member that leaves the team.
template <class Combine>
bool meet(Team& team, Combine combine) {
  const Area& area = team.area();
  const std::uint64_t number = team.begin_meeting();
  const std::uint64_t times = (number + 1) / 2;  // this one included, how often its parity has been used
  int level = team.size();
  int first_node = 0;  // of the level of parents
  int first_child = 0;
  int index = team.seat();
  bool failed = false;
  for (bool of_seats = true;; of_seats = false) {
    const int nodes = (level + arity - 1) / arity;
    const int begin = index / arity * arity;
    const int children = std::min(arity, level - begin);
    const int node_index = first_node + index / arity;
    Node& node = area.node(node_index);
    const std::uint64_t arrived = node.arrived[number % 2].fetch_add(1, std::memory_order_acq_rel) + 1;
    if (arrived != times * static_cast<unsigned>(children)) break;
    if (!combine(Meeting{number, node_index, of_seats, first_child + begin, first_child + begin + children}))
      failed = true;
    if (failed) area.node(area.nodes() - 1).failed.store(number, std::memory_order_relaxed);
    if (nodes == 1) {
      node.released.store(number, std::memory_order_release);
      team.notify_all();
      return node.failed.load(std::memory_order_relaxed) != number;
    }
    index /= arity;
    level = nodes;
    first_child = first_node;
    first_node += nodes;
  }
  const Node& root = area.node(area.nodes() - 1);
  if (!team.wait([&] { return root.released.load(std::memory_order_acquire) >= number; })) return false;
  return root.failed.load(std::memory_order_relaxed) != number;
}

}  // namespace isthmus::coll
