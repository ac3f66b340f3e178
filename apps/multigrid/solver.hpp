// The V-cycles.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "common/gpu/engine.hpp"
#include "common/gpu/exchange.hpp"
#include "kernel_form.hpp"
#include "options.hpp"
#include "work.hpp"

namespace multigrid {

// Solves one problem in one form of communication. The order of all sums is the same in each, so that answers
// are the same bits. Collective, as all here.
class Solver {
 public:
  // The engine and the communicator are borrowed.
  Solver(const Options& options, const Division& division, const Problem::Values& values,
         const apps::gpu::Engine& engine, apps::gpu::Form form, MPI_Comm comm);
  ~Solver();

  // From u = 0; the seconds that it took. `is_watched`: tools such as `isthmus model` count it.
  double solve(bool is_watched);
  // This process's u, and f - A u, by boxes with the layers around them.
  [[nodiscard]] std::vector<double> answer() const;
  [[nodiscard]] std::vector<double> residual();
  [[nodiscard]] int level_count() const { return static_cast<int>(levels_.size()); }
  // Of one V-cycle.
  [[nodiscard]] long exchanges_of_cycle() const;

 private:
  struct Grid;
  void exchange(Grid& grid);
  void smooth(std::size_t depth, int sweeps);
  void restrict_from(std::size_t depth);
  void interpolate_from(std::size_t depth);
  void cycle(std::size_t depth);
  void cycles(int count);

  const Options& options_;
  const apps::gpu::Engine& engine_;
  const apps::gpu::Form form_;
  MPI_Comm comm_;
  apps::gpu::Communication communication_;     // in the kernel form only for what is not timed
  std::vector<std::unique_ptr<Grid>> levels_;  // the finest first
  std::unique_ptr<KernelForm> by_kernels_;
  apps::gpu::Graph two_cycles_;
};

}  // namespace multigrid
