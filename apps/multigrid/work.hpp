// The kernels of multigrid: what is done for each of their points (common/gpu/engine.hpp).
#pragma once

#include "common/gpu/points.hpp"

namespace multigrid {

constexpr int face_count = 6;  // along x, y and z, the lower one first

// One process's cells on one level: boxes of n^3 cells, each with a layer around it, x fastest. `n` is even.
struct Level {
  int n;
  int boxes[3];    // of this process, along each axis
  int first[3];    // this process's first cell among all
  int extent[3];   // all cells
  double inverse;  // 1 / h^2
  double alpha;    // the operator is alpha - Laplace
  double* u;
  double* f;

  APPLICATION_DEVICE int side() const { return n + 2; }
  APPLICATION_DEVICE long box_cells() const { return static_cast<long>(side()) * side() * side(); }
  APPLICATION_DEVICE int box_count() const { return boxes[0] * boxes[1] * boxes[2]; }
  // The layer around has the coordinates 0 and n + 1.
  APPLICATION_DEVICE long index(int box, int x, int y, int z) const {
    return box * box_cells() + x + side() * (y + static_cast<long>(side()) * z);
  }
  APPLICATION_DEVICE int box_at(const int place[3]) const {
    return place[0] + boxes[0] * (place[1] + boxes[1] * place[2]);
  }
  APPLICATION_DEVICE void place_of(int box, int place[3]) const {
    place[0] = box % boxes[0];
    place[1] = box / boxes[0] % boxes[1];
    place[2] = box / boxes[0] / boxes[1];
  }
  // Cells of this process along an axis.
  APPLICATION_DEVICE int cells(int axis) const { return boxes[axis] * n; }
  // How many of a cell's faces are at the boundary, where the values beyond depend on the cell's own.
  APPLICATION_DEVICE int boundary_faces(int box, int x, int y, int z) const {
    int place[3];
    place_of(box, place);
    const int inside[3] = {x - 1, y - 1, z - 1};
    int count = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const int at = first[axis] + place[axis] * n + inside[axis];
      count += (at == 0 ? 1 : 0) + (at == extent[axis] - 1 ? 1 : 0);
    }
    return count;
  }
  // f - A u.
  APPLICATION_DEVICE double residual(long at) const {
    const long dy = side();
    const long dz = dy * dy;
    const double around = u[at - 1] + u[at + 1] + u[at - dy] + u[at + dy] + u[at - dz] + u[at + dz];
    return f[at] - (alpha * u[at] + (6 * u[at] - around) * inverse);
  }
  template <class See>
  bool addresses(See see) {
    return see(u) && see(f);
  }
};

// The cell (or with `around` the one beyond it) of point (a, b) of a face of a box.
APPLICATION_DEVICE long face_cell(const Level& level, int box, int face, int a, int b, bool around) {
  const int fixed = face % 2 == 0 ? (around ? 0 : 1) : level.n + (around ? 1 : 0);
  if (face < 2) return level.index(box, fixed, 1 + a, 1 + b);
  if (face < 4) return level.index(box, 1 + a, fixed, 1 + b);
  return level.index(box, 1 + a, 1 + b, fixed);
}

// Of all boxes at a face of the process.
APPLICATION_DEVICE long points_of_face(const Level& level, int face) {
  const int axis = face / 2;
  return static_cast<long>(level.cells(axis == 0 ? 1 : 0)) * level.cells(axis == 2 ? 1 : 2);
}
// Where such a point is, or with `around` the cell beyond it.
APPLICATION_DEVICE long cell_of_face(const Level& level, int face, long i, bool around) {
  const int axis = face / 2;
  const int first = axis == 0 ? 1 : 0;
  const int second = axis == 2 ? 1 : 2;
  const int a = static_cast<int>(i % level.cells(first));
  const int b = static_cast<int>(i / level.cells(first));
  int place[3];
  place[axis] = face % 2 == 0 ? 0 : level.boxes[axis] - 1;
  place[first] = a / level.n;
  place[second] = b / level.n;
  return face_cell(level, level.box_at(place), face, a % level.n, b % level.n, around);
}

// Fills the layers around boxes from those of the same process, and beyond the boundary, where u is 0.
struct LocalWork {
  static constexpr const char* kernel = "multigrid_local";
  Level level;
  bool is_remote[face_count];  // behind this face of the process are cells of another

  APPLICATION_DEVICE long points() const {
    return static_cast<long>(level.box_count()) * face_count * level.n * level.n;
  }
  APPLICATION_DEVICE void point(long i) const {
    const int n = level.n;
    const int a = static_cast<int>(i % n);
    const int b = static_cast<int>(i / n % n);
    const int face = static_cast<int>(i / n / n % face_count);
    const int box = static_cast<int>(i / n / n / face_count);
    const int axis = face / 2;
    const int step = face % 2 == 0 ? -1 : 1;
    int place[3];
    level.place_of(box, place);
    place[axis] += step;
    const long here = face_cell(level, box, face, a, b, true);
    if (place[axis] >= 0 && place[axis] < level.boxes[axis])
      level.u[here] = level.u[face_cell(level, level.box_at(place), face ^ 1, a, b, false)];
    else if (!is_remote[face])
      level.u[here] = -level.u[face_cell(level, box, face, a, b, false)];
  }
  template <class See>
  bool addresses(See see) {
    return level.addresses(see);
  }
};

// The faces of a process that other processes are behind, all points of them in a row. `outward`: into
// buffers; else out of them, into the layers around.
template <bool outward>
struct FacesWork {
  static constexpr const char* kernel = outward ? "multigrid_pack" : "multigrid_unpack";
  Level level;
  double* buffers[face_count];  // null: nobody is behind this face

  APPLICATION_DEVICE long points() const {
    long sum = 0;
    for (int face = 0; face < face_count; ++face)
      if (buffers[face]) sum += points_of_face(level, face);
    return sum;
  }
  APPLICATION_DEVICE void point(long i) const {
    int face = 0;
    for (; !buffers[face] || i >= points_of_face(level, face); ++face)
      if (buffers[face]) i -= points_of_face(level, face);
    const long cell = cell_of_face(level, face, i, !outward);
    if constexpr (outward)
      buffers[face][i] = level.u[cell];
    else
      level.u[cell] = buffers[face][i];
  }
  template <class See>
  bool addresses(See see) {
    for (double*& buffer : buffers)
      if (buffer && !see(buffer)) return false;
    return level.addresses(see);
  }
};
using PackWork = FacesWork<true>;
using UnpackWork = FacesWork<false>;

// Gauss-Seidel for the cells of one colour of a chessboard.
struct SmoothWork {
  static constexpr const char* kernel = "multigrid_smooth";
  Level level;
  int colour;

  APPLICATION_DEVICE long points() const {
    return static_cast<long>(level.box_count()) * level.n * level.n * (level.n / 2);
  }
  APPLICATION_DEVICE void point(long i) const {
    const int half = level.n / 2;
    const int y = 1 + static_cast<int>(i / half % level.n);
    const int z = 1 + static_cast<int>(i / half / level.n % level.n);
    const int box = static_cast<int>(i / half / level.n / level.n);
    const int x = 1 + 2 * static_cast<int>(i % half) + ((y + z + colour) & 1);
    const long at = level.index(box, x, y, z);
    const double diagonal = level.alpha + (6 + level.boundary_faces(box, x, y, z)) * level.inverse;
    level.u[at] += level.residual(at) / diagonal;
  }
  template <class See>
  bool addresses(See see) {
    return level.addresses(see);
  }
};

// The mean residual of eight cells becomes f of the coarser level, where u begins as 0.
struct RestrictWork {
  static constexpr const char* kernel = "multigrid_restrict";
  Level fine;
  Level coarse;

  APPLICATION_DEVICE long points() const {
    return static_cast<long>(coarse.box_count()) * coarse.n * coarse.n * coarse.n;
  }
  APPLICATION_DEVICE void point(long i) const {
    const int n = coarse.n;
    const int x = static_cast<int>(i % n);
    const int y = static_cast<int>(i / n % n);
    const int z = static_cast<int>(i / n / n % n);
    const int box = static_cast<int>(i / n / n / n);
    double sum = 0;
    for (int part = 0; part < 8; ++part)
      sum += fine.residual(
          fine.index(box, 1 + 2 * x + (part & 1), 1 + 2 * y + (part >> 1 & 1), 1 + 2 * z + (part >> 2)));
    const long at = coarse.index(box, 1 + x, 1 + y, 1 + z);
    coarse.f[at] = sum / 8;
    coarse.u[at] = 0;
  }
  template <class See>
  bool addresses(See see) {
    return fine.addresses(see) && coarse.addresses(see);
  }
};

// Adds the coarser level's u, interpolated so that it is exact where u is linear: the cell that a fine one
// lies in, and its three neighbours that the fine one is next to, a quarter each.
struct InterpolateWork {
  static constexpr const char* kernel = "multigrid_interpolate";
  Level fine;
  Level coarse;

  APPLICATION_DEVICE long points() const {
    return static_cast<long>(fine.box_count()) * fine.n * fine.n * fine.n;
  }
  APPLICATION_DEVICE void point(long i) const {
    const int n = fine.n;
    const int x = static_cast<int>(i % n);
    const int y = static_cast<int>(i / n % n);
    const int z = static_cast<int>(i / n / n % n);
    const int box = static_cast<int>(i / n / n / n);
    const long dy = coarse.side();
    const long at = coarse.index(box, 1 + x / 2, 1 + y / 2, 1 + z / 2);
    const double sum = coarse.u[at] + coarse.u[x % 2 == 0 ? at - 1 : at + 1] +
                       coarse.u[y % 2 == 0 ? at - dy : at + dy] +
                       coarse.u[z % 2 == 0 ? at - dy * dy : at + dy * dy];
    fine.u[fine.index(box, 1 + x, 1 + y, 1 + z)] += 0.25 * sum;
  }
  template <class See>
  bool addresses(See see) {
    return fine.addresses(see) && coarse.addresses(see);
  }
};

}  // namespace multigrid
