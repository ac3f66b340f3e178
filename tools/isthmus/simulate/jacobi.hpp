#pragma once

#include <vector>

#include "decomposition.hpp"
#include "simulate/costs.hpp"

namespace isthmus::simulate {

/// What an iteration takes, in microseconds.
struct Iteration {
  double time = 0;           ///< from one to the next, of the slowest GPU
  double communication = 0;  ///< of that, what is neither its sweep nor packing
};

/// Jacobi3D, as apps/jacobi3d has it: each GPU packs its faces, sends them to up to six neighbours, waits for
/// theirs, unpacks them and sweeps its block; every so many iterations all of them reduce a value. GPUs of a
/// host have a port each way; messages between hosts hold an adapter of each, which neighbours in number
/// share.
class Jacobi {
 public:
  /// The blocks of the GPUs, by their numbers; `way` has a curve for the network where there are several
  /// hosts.
  Jacobi(const Costs& costs, const Way& way, std::vector<jacobi::Block> blocks)
      : costs_(costs), way_(way), blocks_(std::move(blocks)) {}

  /// The mean of `iterations`, after some to begin with.
  [[nodiscard]] Iteration run(int iterations = 20) const;

 private:
  class Job;

  const Costs& costs_;
  const Way& way_;
  std::vector<jacobi::Block> blocks_;
};

/// A cube of n points along each edge, cut as jacobi3d cuts it; empty where it cannot be.
[[nodiscard]] std::vector<jacobi::Block> cube(int gpus, int n);
/// A block of `edge` points along each edge for each GPU.
[[nodiscard]] std::vector<jacobi::Block> equal_blocks(int gpus, int edge);

}  // namespace isthmus::simulate
