// What the iteration consists of, however it is driven.
#pragma once

#include <mpi.h>

#include "decomposition.hpp"
#include "field.hpp"
#include "options.hpp"
#include "problem.hpp"

namespace jacobi {

// The exact values on the cube's boundary, 0 inside.
void set_boundary(Field& field, const Problem& problem, const Block& block);

// h^2 f at the block's points.
[[nodiscard]] Field scaled_source(const Problem& problem, const Block& block);

[[nodiscard]] double largest_error(const Field& field, const Problem& problem, const Block& block);

[[nodiscard]] double global_max(double value, MPI_Comm comm);

// The weights of the Chebyshev semi-iteration for eigenvalues in [-radius, radius] (Varga, Matrix Iterative
// Analysis, 5.1); 1 throughout for plain Jacobi.
class Weights {
 public:
  Weights(Method method, double radius) : square_(method == Method::jacobi ? 0 : radius * radius) {}

  double next() {
    if (step_ == 1) weight_ = 2 / (2 - square_);
    if (step_ > 1) weight_ = 1 / (1 - square_ * weight_ / 4);
    ++step_;
    return weight_;
  }

 private:
  double square_;
  double weight_ = 1;
  int step_ = 0;
};

// How much ln(error) falls per iteration, asymptotically.
[[nodiscard]] double theoretical_rate(Method method, double radius);

// Twice what the tolerance takes when the residual begins at the boundary's jump, of the order of 6/h^2.
[[nodiscard]] int default_limit(const Options& options, const Problem& problem, double rate);

}  // namespace jacobi
