#include "pencils.hpp"

#include <algorithm>
#include <cstdlib>

namespace fft {

bool fits(const Grid& grid, const Triple& points) {
  return grid.row <= std::min(modes_along_x(points), points[1]) &&
         grid.column <= std::min(points[1], points[2]);
}

std::optional<Grid> choose_grid(int processes, const Triple& points) {
  std::optional<Grid> best;
  auto oblongness = [](const Grid& grid) { return std::abs(grid.column - grid.row); };
  for (int row = 1; row <= processes; ++row) {
    if (processes % row != 0) continue;
    const Grid grid{row, processes / row};
    if (fits(grid, points) && (!best || oblongness(grid) < oblongness(*best))) best = grid;
  }
  return best;
}

std::array<double, 4> Pencils::sizes() const {
  const auto [nx, ny, nz] = points;
  const double across = static_cast<double>(y_of_x.size) * z.size;
  return {across * nx, across * modes, static_cast<double>(x.size) * z.size * ny,
          static_cast<double>(x.size) * y_of_z.size * nz};
}

Pencils pencils_of(int in_row, int in_column, const Grid& grid, const Triple& points) {
  const int modes = modes_along_x(points);
  return {.points = points,
          .modes = modes,
          .x = apps::share_of(modes, grid.row, in_row),
          .y_of_x = apps::share_of(points[1], grid.row, in_row),
          .y_of_z = apps::share_of(points[1], grid.column, in_column),
          .z = apps::share_of(points[2], grid.column, in_column)};
}

}  // namespace fft
