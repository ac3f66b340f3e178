#include "graph.hpp"

#include <algorithm>

#include "work.hpp"

namespace breadth_first {
namespace {

// The same number for the same question (splitmix64).
std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// One to one on the numbers of `bits` bits: each step can be undone.
int shuffle(int number, int bits) {
  const auto mask = (std::uint64_t{1} << bits) - 1;
  auto value = static_cast<std::uint64_t>(number);
  for (int round = 0; round < 3; ++round) {
    value = (value * 0x9e3779b1ULL + 0x7f4a7c15ULL) & mask;
    value ^= value >> (bits / 2 + 1);
  }
  return static_cast<int>(value);
}

}  // namespace

Edge Graph::edge(long number) const {
  int source = 0, target = 0;
  for (int bit = 0; bit < scale; ++bit) {
    const std::uint64_t question = static_cast<std::uint64_t>(number) * 64 + static_cast<std::uint64_t>(bit);
    const double chance = static_cast<double>(mix(question) >> 11) * 0x1p-53;
    const int quarter = chance < 0.57 ? 0 : chance < 0.76 ? 1 : chance < 0.95 ? 2 : 3;
    source |= (quarter >> 1) << bit;
    target |= (quarter & 1) << bit;
  }
  return {shuffle(source, scale), shuffle(target, scale)};
}

int Graph::root(int number) const {
  for (long i = 0;; ++i) {
    const auto [source, target] = edge(static_cast<long>(mix(static_cast<std::uint64_t>(1000 * number + i)) %
                                                         static_cast<std::uint64_t>(edges())));
    if (source != target) return source;
  }
}

std::vector<int> serial_levels(const Graph& graph, int root) {
  std::vector<std::vector<int>> neighbours(static_cast<std::size_t>(graph.vertices()));
  for (long i = 0; i < graph.edges(); ++i) {
    const auto [source, target] = graph.edge(i);
    neighbours[static_cast<std::size_t>(source)].push_back(target);
    neighbours[static_cast<std::size_t>(target)].push_back(source);
  }
  std::vector<int> levels(neighbours.size(), never), queue{root};
  levels[static_cast<std::size_t>(root)] = 0;
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const auto at = static_cast<std::size_t>(queue[next]);
    for (const int other : neighbours[at])
      if (int& level = levels[static_cast<std::size_t>(other)]; level == never) {
        level = levels[at] + 1;
        queue.push_back(other);
      }
  }
  return levels;
}

Grid share_out(const Graph& graph, int rank, int processes) {
  int rows = 1;
  for (int r = 1; r * r <= processes; ++r)
    if (processes % r == 0) rows = r;
  const int columns = processes / rows;
  const int words = (graph.vertices() / word_bits + processes - 1) / processes;
  return {rows, columns, rank / columns, rank % columns, words * word_bits};
}

LocalEdges local_edges(const Graph& graph, const Grid& grid) {
  LocalEdges local;
  const auto keep = [&](int source, int target) {
    if (grid.column_of(source) != grid.column || grid.row_of(target) != grid.row) return;
    local.sources.push_back(grid.row_of(source) * grid.part + source % grid.part);
    local.targets.push_back(grid.column_of(target) * grid.part + target % grid.part);
  };
  for (long i = 0; i < graph.edges(); ++i) {
    const auto [source, target] = graph.edge(i);
    if (source == target) continue;
    keep(source, target);
    keep(target, source);
  }
  return local;
}

}  // namespace breadth_first
