#include "crystal.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace molecular {
namespace {

constexpr double corners[4][3] = {{0, 0, 0}, {0, 0.5, 0.5}, {0.5, 0, 0.5}, {0.5, 0.5, 0}};

// The same number for the same question, between 0 and 1 (splitmix64).
double uniform(std::uint64_t question) {
  std::uint64_t z = question * 0x9e3779b97f4a7c15ULL + 0x1234567ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return (static_cast<double>(z >> 11) + 0.5) * 0x1p-53;
}

// Of Maxwell's distribution.
double momentum(long number, int axis, double temperature) {
  const auto question = static_cast<std::uint64_t>(number) * 6 + static_cast<std::uint64_t>(2 * axis);
  const double normal =
      std::sqrt(-2 * std::log(uniform(question))) * std::cos(2 * std::numbers::pi * uniform(question + 1));
  return normal * std::sqrt(mass * boltzmann * temperature);
}

}  // namespace

int Crystal::neighbour(int axis, int side) const {
  Triple at = place;
  const auto i = static_cast<std::size_t>(axis);
  at[i] = (at[i] + (side == 0 ? processes[i] - 1 : 1)) % processes[i];
  return at[0] + processes[0] * (at[1] + processes[1] * at[2]);
}

double Crystal::shift(int axis, int side) const {
  const auto i = static_cast<std::size_t>(axis);
  const double world = processes[i] * length();
  if (side == 0) return place[i] == 0 ? world : 0;
  return place[i] == processes[i] - 1 ? -world : 0;
}

Grid Crystal::grid() const {
  Grid grid{};
  for (int axis = 0; axis < 3; ++axis) {
    grid.cells[axis] = static_cast<int>(length() / reach);
    grid.edge[axis] = length() / grid.cells[axis];
    grid.corner[axis] = place[static_cast<std::size_t>(axis)] * length();
  }
  return grid;
}

std::vector<Cell> Crystal::cells(const Grid& grid) const {
  std::vector<Cell> cells(static_cast<std::size_t>(grid.all()));
  // A quarter off the planes on which boxes end, so that rounding decides nothing.
  constexpr double off = 0.25 / 2;
  const long across = static_cast<long>(edge) * processes[0];
  const long high = static_cast<long>(edge) * processes[1];
  for (int z = 0; z < edge; ++z)
    for (int y = 0; y < edge; ++y)
      for (int x = 0; x < edge; ++x) {
        const long in_world[3] = {static_cast<long>(place[0]) * edge + x,
                                  static_cast<long>(place[1]) * edge + y,
                                  static_cast<long>(place[2]) * edge + z};
        for (int corner = 0; corner < 4; ++corner) {
          Atom atom{};
          const long number = 4 * (in_world[0] + across * (in_world[1] + high * in_world[2])) + corner;
          int at[3];
          for (int axis = 0; axis < 3; ++axis) {
            atom.position[axis] =
                (static_cast<double>(in_world[axis]) + corners[corner][axis] + off) * lattice_edge;
            atom.momentum[axis] = momentum(number, axis, temperature);
            at[axis] = static_cast<int>((atom.position[axis] - grid.corner[axis]) / grid.edge[axis]);
          }
          atom.tag = 27 * number + 13;
          Cell& cell = cells[static_cast<std::size_t>(grid.index(at[0], at[1], at[2]))];
          cell.atoms[cell.count++] = atom;
        }
      }
  return cells;
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

double energy_at_rest() {
  constexpr int around = 3;  // cubic cells
  double rho = 0, energy = 0;
  for (int z = -around; z <= around; ++z)
    for (int y = -around; y <= around; ++y)
      for (int x = -around; x <= around; ++x)
        for (const auto& corner : corners) {
          const double r = lattice_edge * std::hypot(x + corner[0], y + corner[1], z + corner[2]);
          if (r == 0 || r >= reach) continue;
          rho += density(r).value;
          energy += 0.5 * repulsion(r).value;
        }
  return energy + embedding(rho).value;
}

}  // namespace molecular
