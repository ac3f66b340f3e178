// How the points of the cube are shared out: a grid of processes, and each process's block.
#pragma once

#include <array>
#include <optional>

namespace jacobi {

using Triple = std::array<int, 3>;  // x, y, z

// The grid of `processes` whose blocks of an n^3 cube have the least surface; no axis gets more processes
// than points. Nothing if there is no such grid. Among equals z is cut the most and x the least: z faces are
// contiguous in memory.
[[nodiscard]] std::optional<Triple> choose_grid(int processes, int n);

// One process's part. Neighbours and offsets follow from the rank alone: x varies fastest.
struct Block {
  Triple grid;    // processes along each axis
  Triple coords;  // this process's place in the grid
  Triple size;    // points of this block
  Triple offset;  // of the whole cube's points that lie before this block

  // The rank one step along an axis, or -1 beyond the grid.
  [[nodiscard]] int neighbour(int axis, int step) const;
};

// Blocks differ by at most one point along an axis.
[[nodiscard]] Block block_of(int rank, const Triple& grid, int n);

}  // namespace jacobi
