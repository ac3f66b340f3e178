#include "kernel_form.hpp"

#include <algorithm>
#include <stdexcept>

#if __has_include(<isthmus/device.hpp>)
#include "common/gpu/fused_kernel.hpp"
#include "fused.hpp"

namespace molecular {
namespace {

using apps::gpu::FusedKernel;
using apps::gpu::tasks_for;

// A point of a thread: a point takes some 100 us, since it visits the atoms of 27 cells. 256 took twice as
// long for 2048 atoms (H200).
constexpr long points_of_task = 128;
constexpr unsigned most_tasks = 1024;
constexpr unsigned most_blocks = 528;  // 16384 atoms: 534 us a step; 264 blocks 815, 1056 blocks 545
constexpr std::size_t part_bytes = 16384;
constexpr int most_steps = 16;  // of a launch, an even number

class Fused final : public KernelForm {
 public:
  Fused(const apps::gpu::Engine& engine, MPI_Comm comm, const Crystal& crystal, const Memory& memory,
        double step)
      : kernel_(engine, comm, FusedWork::kernel, role_count, most_steps * static_cast<int>(exchange_count),
                exchange_count, side_count) {
    work_.grid = crystal.grid();
    std::copy_n(memory.cells, 2, work_.cells);
    work_.sums = memory.sums;
    work_.slopes = memory.slopes;
    work_.problems = memory.problems;
    work_.step = step;
    for (unsigned exchange = 0; exchange < exchange_count; ++exchange) {
      const int axis = static_cast<int>(exchange % 3);
      const bool of_atoms = exchange < 3;
      const Slabs slabs{work_.grid, axis, of_atoms ? depth : 1};
      const std::size_t each = of_atoms ? sizeof(Cell) : capacity * sizeof(double);
      // What goes to the lower one comes from the upper one there.
      work_.mail[exchange] = kernel_.mail({{crystal.neighbour(axis, 0), 1}, {crystal.neighbour(axis, 1), 0}},
                                          static_cast<std::size_t>(slabs.cells()) * each, part_bytes);
      work_.fusion.tasks[sends] = std::max(work_.fusion.tasks[sends], work_.mail[exchange].tasks());
      for (int side = 0; of_atoms && side < side_count; ++side)
        work_.shift[axis][side] = crystal.shift(axis, side);
    }
    work_.fusion.tasks[arrivals] = work_.fusion.tasks[sends];
    const long points = work_.grid.own() * capacity;
    work_.fusion.tasks[before] = tasks_for(points, points_of_task, most_tasks);
    work_.fusion.tasks[after] = tasks_for(std::max(points, work_.grid.within(1)), points_of_task, most_tasks);
  }

  void run(int steps) override {
    for (int done = 0; done < steps; done += most_steps) {
      work_.fusion.steps = exchange_count * static_cast<unsigned>(std::min(most_steps, steps - done));
      kernel_.launch(work_, most_blocks);
    }
  }
  void check() const override { kernel_.check(); }

 private:
  FusedKernel kernel_;
  FusedWork work_{};
};

}  // namespace

std::unique_ptr<KernelForm> make_kernel_form(const apps::gpu::Engine& engine, MPI_Comm comm,
                                             const Crystal& crystal, const Memory& memory, double step) {
  return std::make_unique<Fused>(engine, comm, crystal, memory, step);
}

}  // namespace molecular

#else

namespace molecular {

std::unique_ptr<KernelForm> make_kernel_form(const apps::gpu::Engine&, MPI_Comm, const Crystal&,
                                             const Memory&, double) {
  throw std::runtime_error("the form 'kernel' needs an MPI with <isthmus/device.hpp>, as Isthmus has it");
}

}  // namespace molecular

#endif
