#include "decomposition.hpp"

#include <algorithm>
#include <tuple>

namespace jacobi {

std::optional<Triple> choose_grid(int processes, int n) {
  std::optional<Triple> best;
  // Each cut along an axis adds two faces of n^2 points, so the sum of the cuts is the surface.
  auto rank_of = [](const Triple& grid) { return std::tuple(grid[0] + grid[1] + grid[2], grid[0], grid[1]); };
  for (int x = 1; x <= std::min(processes, n); ++x) {
    if (processes % x != 0) continue;
    const int rest = processes / x;
    for (int y = 1; y <= std::min(rest, n); ++y) {
      if (rest % y != 0 || rest / y > n) continue;
      const Triple grid{x, y, rest / y};
      if (!best || rank_of(grid) < rank_of(*best)) best = grid;
    }
  }
  return best;
}

int Block::neighbour(int axis, int step) const {
  Triple at = coords;
  at[axis] += step;
  if (at[axis] < 0 || at[axis] >= grid[axis]) return -1;
  return at[0] + grid[0] * (at[1] + grid[1] * at[2]);
}

Block block_of(int rank, const Triple& grid, int n) {
  Block block{};
  block.grid = grid;
  block.coords = {rank % grid[0], rank / grid[0] % grid[1], rank / (grid[0] * grid[1])};
  for (int axis = 0; axis < 3; ++axis) {
    const int share = n / grid[axis];
    const int extra = n % grid[axis];  // the first `extra` blocks have one point more
    block.size[axis] = share + (block.coords[axis] < extra ? 1 : 0);
    block.offset[axis] = block.coords[axis] * share + std::min(block.coords[axis], extra);
  }
  return block;
}

}  // namespace jacobi
