#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "comm/communicator.hpp"

namespace isthmus {

/// A grid (MPI 5.0, section 8.5.1). Ranks are numbered with the last coordinate running fastest.
class Grid {
 public:
  struct Dimension {
    int size;
    bool periodic;
  };

  explicit Grid(std::vector<Dimension> dimensions) : dimensions_(std::move(dimensions)) {}

  [[nodiscard]] std::span<const Dimension> dimensions() const noexcept { return dimensions_; }
  /// Number of places.
  [[nodiscard]] int size() const noexcept;
  /// `ErrorClass::arg` for a coordinate outside of a dimension that is not periodic. `coordinates` has one
  /// for each dimension.
  [[nodiscard]] Result<int> rank_at(std::span<const int> coordinates) const;
  /// `rank` below `size()`.
  [[nodiscard]] std::vector<int> coordinates_of(int rank) const;
  /// Rank `displacement` places away from `rank` along `dimension`; `null_process` beyond an end.
  [[nodiscard]] int neighbor(int rank, int dimension, std::int64_t displacement) const;

 private:
  std::vector<Dimension> dimensions_;
};

/// A graph that every process knows all of (section 8.5.3): the neighbours of rank i are `edges` from
/// `index[i - 1]` (0 for the first) up to `index[i]`.
struct Graph {
  std::vector<int> index;
  std::vector<int> edges;

  [[nodiscard]] std::span<const int> neighbors(int rank) const noexcept;
};

/// A graph of which each process knows its own edges (section 8.5.4). Without weights the weights are empty.
struct DistributedGraph {
  std::vector<int> sources, source_weights;
  std::vector<int> destinations, destination_weights;
  bool weighted = false;
};

using Topology = std::variant<Grid, Graph, DistributedGraph>;

/// The topology of a communicator; null if it has none. It is an attribute that duplicates inherit.
[[nodiscard]] const Topology* topology_of(const Communicator& comm);
void set_topology(Communicator& comm, Topology topology);

/// Fills in the zeros of `dims` so that their product is `nodes` and they are as close to each other as they
/// can be, the largest first (section 8.5.2). `ErrorClass::dims` where there is no such way.
Result<> balance_dimensions(int nodes, std::span<int> dims);

}  // namespace isthmus
