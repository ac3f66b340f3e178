#include "problem.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace multigrid {
namespace {

// Waves along each axis, and how much of them.
struct Wave {
  Triple waves;
  double amplitude;
};
constexpr std::array<Wave, 3> waves{{{{1, 1, 1}, 1.0}, {{2, 1, 3}, 0.5}, {{5, 4, 2}, -0.25}}};

// The sine with so many half waves at the middle of a cell.
double sine(int half_waves, int cell, int cells) {
  return std::sin(std::numbers::pi * half_waves * (cell + 0.5) / cells);
}

}  // namespace

int Division::neighbour(int face) const {
  Triple at = place;
  const auto axis = static_cast<std::size_t>(face / 2);
  at[axis] += face % 2 == 0 ? -1 : 1;
  if (at[axis] < 0 || at[axis] >= processes[axis]) return -1;
  return at[0] + processes[0] * (at[1] + processes[1] * at[2]);
}

Triple choose_grid(int processes) {
  Triple best{processes, 1, 1};
  for (int z = 1; z <= processes; ++z)
    for (int y = z; y * z <= processes; ++y) {
      if (processes % (y * z) != 0) continue;
      const int x = processes / y / z;
      if (x >= y && x + y + z < best[0] + best[1] + best[2]) best = {x, y, z};
    }
  return best;
}

Division divide(int rank, int processes, Triple boxes, int n) {
  const Triple grid = choose_grid(processes);
  return {grid, {rank % grid[0], rank / grid[0] % grid[1], rank / grid[0] / grid[1]}, boxes, n};
}

double Problem::h(const Division& division) {
  return 1.0 / std::max({division.extent(0), division.extent(1), division.extent(2)});
}

Problem::Values Problem::values(const Division& division) const {
  const int n = division.n;
  const auto side = static_cast<std::size_t>(n) + 2;
  const auto& boxes = division.boxes;
  std::size_t count = side * side * side;
  for (const int extent : boxes)
    count *= static_cast<std::size_t>(extent);
  Values values{std::vector<double>(count), std::vector<double>(count)};
  const double inverse = 1 / (h(division) * h(division));
  for (const Wave& wave : waves) {
    double eigenvalue = alpha;
    for (std::size_t axis = 0; axis < 3; ++axis)
      eigenvalue +=
          (2 - 2 * std::cos(std::numbers::pi * wave.waves[axis] / division.extent(static_cast<int>(axis)))) *
          inverse;
    std::size_t box = 0;
    for (int bz = 0; bz < boxes[2]; ++bz)
      for (int by = 0; by < boxes[1]; ++by)
        for (int bx = 0; bx < boxes[0]; ++bx, ++box)
          for (int z = 0; z < n; ++z)
            for (int y = 0; y < n; ++y)
              for (int x = 0; x < n; ++x) {
                const double u = wave.amplitude *
                                 sine(wave.waves[0], division.first(0) + bx * n + x, division.extent(0)) *
                                 sine(wave.waves[1], division.first(1) + by * n + y, division.extent(1)) *
                                 sine(wave.waves[2], division.first(2) + bz * n + z, division.extent(2));
                const std::size_t at =
                    box * side * side * side + static_cast<std::size_t>(x + 1) +
                    side * (static_cast<std::size_t>(y + 1) + side * static_cast<std::size_t>(z + 1));
                values.u[at] += u;
                values.f[at] += eigenvalue * u;
              }
  }
  return values;
}

}  // namespace multigrid
