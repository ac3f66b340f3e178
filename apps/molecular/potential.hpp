// The embedded-atom potential of copper by Sutton and Chen (Philosophical Magazine Letters 61, 1990): an
// atom's energy is half of the sum of e (a/r)^9 over its neighbours, less e c times the root of rho, the sum
// of (a/r)^6. Both functions are cut at `reach`, and shifted so that they and their slopes are 0 there: else
// energy would come and go with neighbours. Units: eV, angstrom, femtosecond.
#pragma once

#include <cmath>

#include "common/gpu/points.hpp"

namespace molecular {

constexpr double lattice_edge = 3.61;  // of the cubic cell of four atoms
constexpr double energy_unit = 1.2382e-2;
constexpr double embedding_factor = 39.432;
constexpr double reach = 4.95;
constexpr double mass = 63.546 * 103.642697;  // eV fs^2 / angstrom^2
constexpr double boltzmann = 8.617333e-5;

struct Pair {
  double value, slope;
};

namespace detail {
constexpr double power_of(double ratio, int n) {
  double result = 1;
  for (int i = 0; i < n; ++i)
    result *= ratio;
  return result;
}
constexpr double cut_value(int n) {
  return power_of(lattice_edge / reach, n);
}
constexpr double cut_slope(int n) {
  return -n * cut_value(n) / reach;
}
}  // namespace detail

// (a/r)^6, shifted.
APPLICATION_DEVICE Pair density(double r) {
  constexpr double value = detail::cut_value(6), slope = detail::cut_slope(6);
  const double ratio = lattice_edge / r;
  const double cube = ratio * ratio * ratio;
  const double sixth = cube * cube;
  return {sixth - value - slope * (r - reach), -6 * sixth / r - slope};
}
// e (a/r)^9, shifted.
APPLICATION_DEVICE Pair repulsion(double r) {
  constexpr double value = detail::cut_value(9), slope = detail::cut_slope(9);
  const double ratio = lattice_edge / r;
  const double cube = ratio * ratio * ratio;
  const double ninth = cube * cube * cube;
  return {energy_unit * (ninth - value - slope * (r - reach)), energy_unit * (-9 * ninth / r - slope)};
}
// Of the density at an atom.
APPLICATION_DEVICE Pair embedding(double rho) {
  if (rho <= 0) return {0, 0};
  const double root = std::sqrt(rho);
  return {-energy_unit * embedding_factor * root, -energy_unit * embedding_factor * 0.5 / root};
}

}  // namespace molecular
