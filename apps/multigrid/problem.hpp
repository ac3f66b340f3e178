// The problem and its answer: alpha u - Laplace(u) = f in a box of cells of one size, u = 0 on its boundary,
// by finite volumes. f is a sum of waves of which the discrete operator makes multiples, so that the discrete
// answer is known to the last digits.
#pragma once

#include <array>
#include <vector>

namespace multigrid {

using Triple = std::array<int, 3>;

// Who has which cells: each process a box of boxes.
struct Division {
  Triple processes;  // along each axis
  Triple place;      // of this process
  Triple boxes;      // of each process
  int n;             // cells along an edge of a box

  [[nodiscard]] int cells(int axis) const { return boxes[axis] * n; }
  [[nodiscard]] int first(int axis) const { return place[axis] * cells(axis); }
  [[nodiscard]] int extent(int axis) const { return processes[axis] * cells(axis); }
  // The rank behind a face, -1 if there is none.
  [[nodiscard]] int neighbour(int face) const;
};

// As near to a cube as can be; x has the most.
[[nodiscard]] Triple choose_grid(int processes);
[[nodiscard]] Division divide(int rank, int processes, Triple boxes, int n);

struct Problem {
  double alpha = 0;

  // The edge of a cell: the longest edge of the domain is 1.
  [[nodiscard]] static double h(const Division& division);
  struct Values {
    std::vector<double> f, u;  // this process's cells by boxes, with the layers around them, where they are 0
  };
  [[nodiscard]] Values values(const Division& division) const;
};

}  // namespace multigrid
