// The time steps.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "common/gpu/engine.hpp"
#include "common/gpu/exchange.hpp"
#include "crystal.hpp"
#include "kernel_form.hpp"
#include "options.hpp"

namespace molecular {

// Of this process, or of all.
struct Totals {
  double potential = 0, kinetic = 0;
  double momentum[3] = {0, 0, 0};
  double force = 0;  // the largest component
  long atoms = 0;
  long numbers = 0;  // the sum of the atoms' numbers

  [[nodiscard]] double energy() const { return potential + kinetic; }
};

// One form of communication. Sums are taken in the same order in each, so that all atoms have the same bits.
// Collective, as all here.
class Simulation {
 public:
  // The engine and the communicator are borrowed.
  Simulation(const Options& options, const Crystal& crystal, const apps::gpu::Engine& engine,
             apps::gpu::Form form, MPI_Comm comm);
  ~Simulation();

  // So many steps, an even number; the seconds that they took. `is_watched`: tools such as `isthmus model`
  // count them.
  double run(int steps, bool is_watched);
  // Throws where an atom has gone too far, or a cell is too full.
  [[nodiscard]] Totals totals() const;
  // The atoms of this process, by cells.
  [[nodiscard]] std::vector<Atom> atoms() const;

 private:
  struct Ways;
  void exchange_atoms();
  void find_forces(double step);
  void one_step();

  const Options& options_;
  const apps::gpu::Engine& engine_;
  const apps::gpu::Form form_;
  MPI_Comm comm_;
  const Grid grid_;
  apps::gpu::Communication communication_;
  apps::gpu::Buffer<Cell> first_cells_, second_cells_;
  Cell* now_;  // by the cells that atoms were in before the last move
  Cell* sorted_;
  apps::gpu::Buffer<Sums> sums_;
  apps::gpu::Buffer<double> slopes_;
  apps::gpu::Buffer<long> problems_;
  std::vector<std::unique_ptr<Ways>> ways_;  // along x, y, z
  apps::gpu::Graph two_steps_;
  std::unique_ptr<KernelForm> by_kernels_;
};

}  // namespace molecular
