// The atoms at the beginning, and what is known of them.
#pragma once

#include <array>
#include <vector>

#include "work.hpp"

namespace molecular {

using Triple = std::array<int, 3>;

// A crystal of cubic cells of four atoms, repeated for ever, shared out among processes in boxes of one size.
struct Crystal {
  Triple processes;    // along each axis
  Triple place;        // of this process
  int edge;            // of a process, in cubic cells
  double temperature;  // kelvin

  [[nodiscard]] long atoms() const {
    return 4L * edge * edge * edge * processes[0] * processes[1] * processes[2];
  }
  [[nodiscard]] double length() const { return edge * lattice_edge; }  // of a process's box
  // The rank beside this process: `side` 0 the lower one, 1 the upper one.
  [[nodiscard]] int neighbour(int axis, int side) const;
  // What has to be added to positions that go there.
  [[nodiscard]] double shift(int axis, int side) const;

  [[nodiscard]] Grid grid() const;
  // With the layers around, which are empty. Momenta depend on the atoms' numbers alone.
  [[nodiscard]] std::vector<Cell> cells(const Grid& grid) const;
};

// As near to a cube as can be; x has the most.
[[nodiscard]] Triple choose_grid(int processes);

// Of each atom of the crystal at rest, summed up over its neighbours, in eV.
[[nodiscard]] double energy_at_rest();

}  // namespace molecular
