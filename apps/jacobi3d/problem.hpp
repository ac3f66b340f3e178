// The problem and what is known of its answer: -Laplace(u) = f on the unit cube, u given on its boundary,
// with u = exp(x) sin(pi y) cos(pi z), so f = (2 pi^2 - 1) u. Discretised by the 7-point stencil on n^3 inner
// points.
#pragma once

#include <cmath>
#include <numbers>

namespace jacobi {

struct Problem {
  int n;
  static constexpr double source_factor = 1.25 * std::numbers::pi * std::numbers::pi - 1;

  // Grid spacing; the boundary is at indices 0 and n + 1.
  [[nodiscard]] double h() const { return 1.0 / (n + 1); }

  // At grid indices.
  [[nodiscard]] double exact(int x, int y, int z) const {
    constexpr double pi = std::numbers::pi;
    return std::exp(x * h()) * std::sin(pi * y * h()) * std::cos(pi / 2 * z * h());
  }
  [[nodiscard]] double source(int x, int y, int z) const { return source_factor * exact(x, y, z); }

  // max |f|, by which residuals are scaled.
  [[nodiscard]] static double largest_source() { return source_factor * std::numbers::e; }

  // An upper bound on max |u_h - u| for any u_h whose residual is at most `residual` (max norm, not scaled).
  // The stencil's truncation error is at most h^2/12 (max|u_xxxx| + max|u_yyyy| + max|u_zzzz|), and the
  // inverse of the discrete operator has max norm <= 1/8, by the maximum principle with x(1-x)/2 as the
  // comparison function.
  [[nodiscard]] double error_bound(double residual) const {
    const double pi4 = std::pow(std::numbers::pi, 4);
    return h() * h() * std::numbers::e * (1 + pi4 + pi4 / 16) / 96 + residual / 8;
  }

  // The largest eigenvalue of the Jacobi iteration, in modulus.
  [[nodiscard]] double spectral_radius() const { return std::cos(std::numbers::pi * h()); }
};

}  // namespace jacobi
