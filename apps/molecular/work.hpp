// The kernels of molecular: what is done for each of their points (common/gpu/engine.hpp).
#pragma once

#include "common/gpu/points.hpp"
#include "potential.hpp"

namespace molecular {

constexpr int capacity = 32;  // atoms of a cell
constexpr int depth = 2;      // layers of cells around those of a process
constexpr int side_count = 2;

struct Atom {
  double position[3];
  double momentum[3];
  // Its number, and to which of 27 cells it goes from where it is: 27 number + code, 13 for staying. Whose
  // cell it is in says so, so that all who have a copy of it think the same.
  long tag;

  APPLICATION_DEVICE long number() const { return tag / 27; }
  APPLICATION_DEVICE int code() const { return static_cast<int>(tag % 27); }
};

struct Cell {
  Atom atoms[capacity];  // by their numbers
  long count;
};

// What is computed for each place of a cell.
struct Sums {
  double force[3];
  double energy;
};

// Cells of a process, x fastest, with `depth` layers around; and where they lie.
struct Grid {
  int cells[3];      // of this process
  double edge[3];    // of a cell
  double corner[3];  // of this process's first cell

  APPLICATION_DEVICE int side(int axis) const { return cells[axis] + 2 * depth; }
  APPLICATION_DEVICE long all() const { return static_cast<long>(side(0)) * side(1) * side(2); }
  APPLICATION_DEVICE long own() const { return static_cast<long>(cells[0]) * cells[1] * cells[2]; }
  // From -depth to cells + depth - 1.
  APPLICATION_DEVICE long index(int x, int y, int z) const {
    return x + depth + static_cast<long>(side(0)) * (y + depth + static_cast<long>(side(1)) * (z + depth));
  }
  // The place of the `i`th of the cells within `layers` around the process's own.
  APPLICATION_DEVICE void place(long i, int layers, int at[3]) const {
    const int wide = cells[0] + 2 * layers;
    const int high = cells[1] + 2 * layers;
    at[0] = static_cast<int>(i % wide) - layers;
    at[1] = static_cast<int>(i / wide % high) - layers;
    at[2] = static_cast<int>(i / wide / high) - layers;
  }
  APPLICATION_DEVICE long within(int layers) const {
    return static_cast<long>(cells[0] + 2 * layers) * (cells[1] + 2 * layers) * (cells[2] + 2 * layers);
  }
};

// Half a step of momentum, a step of position; then where it goes.
struct MoveWork {
  static constexpr const char* kernel = "molecular_move";
  Grid grid;
  Cell* cells;
  const Sums* sums;
  double step;  // femtoseconds
  long* problems;

  APPLICATION_DEVICE long points() const { return grid.own() * capacity; }
  APPLICATION_DEVICE void point(long i) const {
    int at[3];
    grid.place(i / capacity, 0, at);
    const long cell = grid.index(at[0], at[1], at[2]);
    const int slot = static_cast<int>(i % capacity);
    if (slot >= cells[cell].count) return;
    Atom& atom = cells[cell].atoms[slot];
    int code = 0, weight = 1;
    for (int axis = 0; axis < 3; ++axis) {
      atom.momentum[axis] += 0.5 * step * sums[cell * capacity + slot].force[axis];
      atom.position[axis] += step / mass * atom.momentum[axis];
      const double from = atom.position[axis] - (grid.corner[axis] + at[axis] * grid.edge[axis]);
      // A neighbour's cell at most. Further: the step is too long, which is told.
      const bool is_near = from >= -grid.edge[axis] && from < 2 * grid.edge[axis];  // not so of a NaN
      if (!is_near) *problems = 1;
      code += weight * (from < 0 ? 0 : from < grid.edge[axis] ? 1 : 2);
      weight *= 3;
    }
    atom.tag = 27 * atom.number() + code;
  }
  template <class See>
  bool addresses(See see) {
    return see(cells) && see(sums) && see(problems);
  }
};

// The cells of two slabs across an axis, the lower one first, at the own edge of a process (outward) or
// beyond it. Those of earlier axes are as wide as what has come over these.
struct Slabs {
  Grid grid;
  int axis;
  int thick;

  APPLICATION_DEVICE int extent(int other) const {
    return other == axis ? thick : grid.cells[other] + (other < axis ? 2 * thick : 0);
  }
  APPLICATION_DEVICE long cells() const { return static_cast<long>(extent(0)) * extent(1) * extent(2); }
  APPLICATION_DEVICE long index(int side, long i, bool outward) const {
    int at[3];
    at[0] = static_cast<int>(i % extent(0));
    at[1] = static_cast<int>(i / extent(0) % extent(1));
    at[2] = static_cast<int>(i / extent(0) / extent(1));
    for (int other = 0; other < axis; ++other)
      at[other] -= thick;
    if (side == 0)
      at[axis] += outward ? 0 : -thick;
    else
      at[axis] += grid.cells[axis] - (outward ? thick : 0);
    return grid.index(at[0], at[1], at[2]);
  }
};

// Whole cells into messages, by places of them; atoms that go over the end of the world come in at its other
// side.
struct PackAtomsWork {
  static constexpr const char* kernel = "molecular_pack_atoms";
  Slabs slabs;
  const Cell* cells;
  Cell* buffers[side_count];
  double shift[side_count];  // of positions along the axis

  APPLICATION_DEVICE long points() const { return side_count * slabs.cells() * capacity; }
  APPLICATION_DEVICE void point(long i) const {
    const int slot = static_cast<int>(i % capacity);
    const long cell = i / capacity % slabs.cells();
    const int side = static_cast<int>(i / capacity / slabs.cells());
    const Cell& from = cells[slabs.index(side, cell, true)];
    Cell& to = buffers[side][cell];
    if (slot == 0) to.count = from.count;
    if (slot >= from.count) return;
    Atom atom = from.atoms[slot];
    atom.position[slabs.axis] += shift[side];
    to.atoms[slot] = atom;
  }
  template <class See>
  bool addresses(See see) {
    return see(cells) && see(buffers[0]) && see(buffers[1]);
  }
};

struct UnpackAtomsWork {
  static constexpr const char* kernel = "molecular_unpack_atoms";
  Slabs slabs;
  Cell* cells;
  const Cell* buffers[side_count];

  APPLICATION_DEVICE long points() const { return side_count * slabs.cells() * capacity; }
  APPLICATION_DEVICE void point(long i) const {
    const int slot = static_cast<int>(i % capacity);
    const long cell = i / capacity % slabs.cells();
    const int side = static_cast<int>(i / capacity / slabs.cells());
    const Cell& from = buffers[side][cell];
    Cell& to = cells[slabs.index(side, cell, false)];
    if (slot == 0) to.count = from.count;
    if (slot < from.count) to.atoms[slot] = from.atoms[slot];
  }
  template <class See>
  bool addresses(See see) {
    return see(cells) && see(buffers[0]) && see(buffers[1]);
  }
};

// Each cell, with one layer around the own ones, takes the atoms that come to it from the 27 that are near,
// by their numbers.
struct SortWork {
  static constexpr const char* kernel = "molecular_sort";
  Grid grid;
  const Cell* before;
  Cell* after;
  long* problems;

  APPLICATION_DEVICE long points() const { return grid.within(1); }
  APPLICATION_DEVICE void point(long i) const {
    int at[3];
    grid.place(i, 1, at);
    Cell& cell = after[grid.index(at[0], at[1], at[2])];
    int count = 0;
    for (int code = 0; code < 27; ++code) {
      // Who goes by `code` comes from the other side.
      const Cell& from =
          before[grid.index(at[0] - (code % 3 - 1), at[1] - (code / 3 % 3 - 1), at[2] - (code / 9 - 1))];
      for (int slot = 0; slot < from.count; ++slot) {
        const Atom& atom = from.atoms[slot];
        if (atom.code() != code) continue;
        if (count == capacity) {
          *problems = 2;
          break;
        }
        int place = count++;
        for (; place > 0 && cell.atoms[place - 1].number() > atom.number(); --place)
          cell.atoms[place] = cell.atoms[place - 1];
        cell.atoms[place] = atom;
      }
    }
    cell.count = count;
  }
  template <class See>
  bool addresses(See see) {
    return see(before) && see(after) && see(problems);
  }
};

// `visit(r, distance, index of the place)` for the neighbours of an atom, always in the same order.
template <class Visit>
APPLICATION_DEVICE void for_neighbours(const Grid& grid, const Cell* cells, const int at[3], int slot,
                                       Visit visit) {
  const Atom& atom = cells[grid.index(at[0], at[1], at[2])].atoms[slot];
  for (int code = 0; code < 27; ++code) {
    const long other = grid.index(at[0] + code % 3 - 1, at[1] + code / 3 % 3 - 1, at[2] + code / 9 - 1);
    const Cell& cell = cells[other];
    for (int i = 0; i < cell.count; ++i) {
      if (code == 13 && i == slot) continue;
      double way[3], square = 0;
      for (int axis = 0; axis < 3; ++axis) {
        way[axis] = atom.position[axis] - cell.atoms[i].position[axis];
        square += way[axis] * way[axis];
      }
      if (square < reach * reach) visit(way, std::sqrt(square), other * capacity + i);
    }
  }
}

// The density at each atom, and the slope of the energy that it is embedded with.
struct DensityWork {
  static constexpr const char* kernel = "molecular_density";
  Grid grid;
  const Cell* cells;
  Sums* sums;
  double* slopes;

  APPLICATION_DEVICE long points() const { return grid.own() * capacity; }
  APPLICATION_DEVICE void point(long i) const {
    int at[3];
    grid.place(i / capacity, 0, at);
    const long cell = grid.index(at[0], at[1], at[2]);
    const int slot = static_cast<int>(i % capacity);
    if (slot >= cells[cell].count) return;
    double rho = 0, energy = 0;
    for_neighbours(grid, cells, at, slot, [&](const double*, double r, long) {
      rho += density(r).value;
      energy += 0.5 * repulsion(r).value;
    });
    const Pair embedded = embedding(rho);
    sums[cell * capacity + slot].energy = energy + embedded.value;
    slopes[cell * capacity + slot] = embedded.slope;
  }
  template <class See>
  bool addresses(See see) {
    return see(cells) && see(sums) && see(slopes);
  }
};

// Those slopes into messages and out of them; `outward` as in Slabs.
template <bool outward>
struct SlopesWork {
  static constexpr const char* kernel = outward ? "molecular_pack_slopes" : "molecular_unpack_slopes";
  Slabs slabs;
  double* slopes;
  double* buffers[side_count];

  APPLICATION_DEVICE long points() const { return side_count * slabs.cells() * capacity; }
  APPLICATION_DEVICE void point(long i) const {
    const long in_side = i % (slabs.cells() * capacity);
    const int side = static_cast<int>(i / capacity / slabs.cells());
    double& slope = slopes[slabs.index(side, in_side / capacity, outward) * capacity + in_side % capacity];
    if constexpr (outward)
      buffers[side][in_side] = slope;
    else
      slope = buffers[side][in_side];
  }
  template <class See>
  bool addresses(See see) {
    return see(slopes) && see(buffers[0]) && see(buffers[1]);
  }
};
using PackSlopesWork = SlopesWork<true>;
using UnpackSlopesWork = SlopesWork<false>;

// The forces, and the second half step of momentum. A step of 0: the forces alone.
struct ForceWork {
  static constexpr const char* kernel = "molecular_force";
  Grid grid;
  Cell* cells;
  Sums* sums;
  const double* slopes;
  double step;

  APPLICATION_DEVICE long points() const { return grid.own() * capacity; }
  APPLICATION_DEVICE void point(long i) const {
    int at[3];
    grid.place(i / capacity, 0, at);
    const long cell = grid.index(at[0], at[1], at[2]);
    const int slot = static_cast<int>(i % capacity);
    if (slot >= cells[cell].count) return;
    const double own = slopes[cell * capacity + slot];
    double force[3] = {0, 0, 0};
    for_neighbours(grid, cells, at, slot, [&](const double* way, double r, long other) {
      const double slope = repulsion(r).slope + (own + slopes[other]) * density(r).slope;
      for (int axis = 0; axis < 3; ++axis)
        force[axis] -= slope * way[axis] / r;
    });
    Atom& atom = cells[cell].atoms[slot];
    for (int axis = 0; axis < 3; ++axis) {
      sums[cell * capacity + slot].force[axis] = force[axis];
      atom.momentum[axis] += 0.5 * step * force[axis];
    }
  }
  template <class See>
  bool addresses(See see) {
    return see(cells) && see(sums) && see(slopes);
  }
};

}  // namespace molecular
