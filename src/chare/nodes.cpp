#include "chare/nodes.hpp"

#include <algorithm>

namespace isthmus::chare {

Nodes::Nodes(std::span<const std::uint32_t> keys, std::uint32_t used) {
  for (std::uint32_t rank = 0; rank < used; ++rank) {
    const auto leader =
        std::ranges::find_if(leaders_, [&](std::uint32_t each) { return keys[each] == keys[rank]; });
    numbers_.push_back(static_cast<std::uint32_t>(leader - leaders_.begin()));
    if (leader == leaders_.end()) leaders_.push_back(rank);
  }
}

std::vector<std::uint32_t> Nodes::below(std::uint32_t rank, std::uint32_t root) const {
  // Places: `root`, then the leaders behind it in the order of nodes, around.
  const std::uint32_t nodes = size();
  const std::uint32_t first = of(root) + (leads(root) ? 1 : 0);
  const std::uint32_t others = nodes - (leads(root) ? 1 : 0);
  const std::uint32_t place = rank == root ? 0 : (of(rank) + nodes - first % nodes) % nodes + 1;
  std::vector<std::uint32_t> children;
  for (std::uint32_t child = 2 * place + 1; child <= 2 * place + 2 && child <= others; ++child)
    children.push_back(leader((first + child - 1) % nodes));
  return children;
}

}  // namespace isthmus::chare
