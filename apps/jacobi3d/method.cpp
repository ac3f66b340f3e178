#include "method.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace jacobi {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

void set_boundary(Field& field, const Problem& problem, const Block& block) {
  const auto [sx, sy, sz] = block.size;
  auto outside = [&](int global) { return global == 0 || global == problem.n + 1; };
  for (int z = 0; z <= sz + 1; ++z) {
    for (int y = 0; y <= sy + 1; ++y) {
      for (int x = 0; x <= sx + 1; ++x) {
        const Triple at{x + block.offset[0], y + block.offset[1], z + block.offset[2]};
        const bool boundary = outside(at[0]) || outside(at[1]) || outside(at[2]);
        field.at(x, y, z) = boundary ? problem.exact(at[0], at[1], at[2]) : 0;
      }
    }
  }
}

Field scaled_source(const Problem& problem, const Block& block) {
  Field field(block.size);
  const double h2 = problem.h() * problem.h();
  for (int z = 1; z <= block.size[2]; ++z) {
    for (int y = 1; y <= block.size[1]; ++y) {
      for (int x = 1; x <= block.size[0]; ++x) {
        field.at(x, y, z) =
            h2 * problem.source(x + block.offset[0], y + block.offset[1], z + block.offset[2]);
      }
    }
  }
  return field;
}

double largest_error(const Field& field, const Problem& problem, const Block& block) {
  double largest = 0;
  double sum = 0;
  for (int z = 1; z <= block.size[2]; ++z) {
    for (int y = 1; y <= block.size[1]; ++y) {
      for (int x = 1; x <= block.size[0]; ++x) {
        const double exact = problem.exact(x + block.offset[0], y + block.offset[1], z + block.offset[2]);
        const double error = std::abs(field.at(x, y, z) - exact);
        largest = std::max(largest, error);
        sum += error;
      }
    }
  }
  return std::isfinite(sum) ? largest : infinity;
}

double global_max(double value, MPI_Comm comm) {
  double result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, comm);
  return result;
}

double theoretical_rate(Method method, double radius) {
  if (method == Method::jacobi) return -std::log(radius);
  return -std::log(radius / (1 + std::sqrt(1 - radius * radius)));
}

int default_limit(const Options& options, const Problem& problem, double rate) {
  const double fall = std::log(6 / (problem.h() * problem.h() * options.tolerance));
  return static_cast<int>(std::min(1e9, std::ceil(2 * fall / rate)));
}

}  // namespace jacobi
