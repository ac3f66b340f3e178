// How the points of the box are shared out: a grid of processes, and the pencils that each of them holds.
// After P3DFFT (D. Pekurovsky, SIAM Journal on Scientific Computing 34, 2012): a pencil is whole along one
// axis, so that transforms along it are local.
#pragma once

#include <array>
#include <optional>

#include "common/share.hpp"

namespace fft {

using Triple = std::array<int, 3>;  // x, y, z
using Share = apps::Share<int>;

// Those of a row share x out, or y; those of a column y, or z. Processes of a row have ranks that follow each
// other.
struct Grid {
  int row;     // processes in each row
  int column;  // processes in each column
};

// Coefficients along x that a transform of real numbers keeps: the others are conjugates of them.
[[nodiscard]] inline int modes_along_x(const Triple& points) {
  return points[0] / 2 + 1;
}

// Whether each process of the grid gets a pencil in each of the three directions.
[[nodiscard]] bool fits(const Grid& grid, const Triple& points);

// The grid of `processes` that fits and is nearest to a square, short rows where both orders fit. Nothing if
// none does.
[[nodiscard]] std::optional<Grid> choose_grid(int processes, const Triple& points);

// The pencils of one process. Shares are of points, along x of modes.
struct Pencils {
  Triple points;  // of the whole box
  int modes;      // modes_along_x(points)
  Share x;        // in pencils along y and z: of the modes, in its row
  Share y_of_x;   // in pencils along x: in its row
  Share y_of_z;   // in pencils along z: in its column
  Share z;        // in pencils along x and y: in its column

  [[nodiscard]] double points_in_all() const {
    return static_cast<double>(points[0]) * points[1] * points[2];
  }
  // Numbers that a process holds: real in pencils along x, complex in those of modes along x, y and z.
  [[nodiscard]] std::array<double, 4> sizes() const;
};

[[nodiscard]] Pencils pencils_of(int in_row, int in_column, const Grid& grid, const Triple& points);

}  // namespace fft
