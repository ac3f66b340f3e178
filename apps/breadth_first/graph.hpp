// A Kronecker graph as Graph 500 makes them, and how processes share it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace breadth_first {

using Edge = std::pair<int, int>;

struct Graph {
  int scale;        // 2^scale vertices
  int edge_factor;  // edges for each vertex

  [[nodiscard]] int vertices() const { return 1 << scale; }
  [[nodiscard]] long edges() const { return static_cast<long>(edge_factor) << scale; }
  // The same on all processes, and for the same number. Initiator 0.57, 0.19, 0.19, 0.05; vertices are
  // shuffled.
  [[nodiscard]] Edge edge(long number) const;
  // A vertex with edges; the same on all processes.
  [[nodiscard]] int root(int number) const;
};

// The levels of all vertices from a root, by one processor: what the answer must be.
[[nodiscard]] std::vector<int> serial_levels(const Graph& graph, int root);

// Processes in rows and columns. Vertices are shared out in a part for each process; the one in row r and
// column c has the edges from parts of its column to parts of its row.
struct Grid {
  int rows, columns;
  int row, column;  // of this process
  int part;         // vertices of a part, a multiple of a word's bits

  [[nodiscard]] int rank(int r, int c) const { return r * columns + c; }
  [[nodiscard]] int self() const { return rank(row, column); }
  [[nodiscard]] int owner(int vertex) const { return vertex / part; }
  [[nodiscard]] int row_of(int vertex) const { return owner(vertex) / columns; }
  [[nodiscard]] int column_of(int vertex) const { return owner(vertex) % columns; }
};

[[nodiscard]] Grid share_out(const Graph& graph, int rank, int processes);

// This process's edges in both directions: sources count in the parts of its column, by rows; targets in
// those of its row, by columns.
struct LocalEdges {
  std::vector<int> sources, targets;
};
[[nodiscard]] LocalEdges local_edges(const Graph& graph, const Grid& grid);

}  // namespace breadth_first
