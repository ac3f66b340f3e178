#include "kernel_form.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#if __has_include(<isthmus/device.hpp>)
#include "common/gpu/fused_kernel.hpp"
#include "fused.hpp"

namespace breadth_first {
namespace {

using apps::gpu::Buffer;
using apps::gpu::FusedKernel;
using apps::gpu::KernelMail;
using apps::gpu::MailRoute;
using apps::gpu::tasks_for;

constexpr long words_of_task = 256;
constexpr long edges_of_task = 4096;
constexpr unsigned most_tasks = 1024;
constexpr unsigned most_blocks = 1056;  // 2^18 vertices: 355 us a search; 528 blocks 399 (H200)
constexpr std::size_t part_bytes = 8192;
// Of a launch. Those behind the last one are nearly free, but not quite.
constexpr int most_levels = 8;

class Fused final : public KernelForm {
 public:
  Fused(const apps::gpu::Engine& engine, MPI_Comm comm, const Grid& grid, const Memory& memory, int ahead)
      : engine_(engine),
        kernel_(engine, comm, FusedWork::kernel, role_count, std::max(most_levels, ahead), 2, most_peers),
        over_(engine, 2) {
    work_.words = grid.part / word_bits;
    work_.row = grid.row;
    work_.column = grid.column;
    work_.columns = grid.columns;
    work_.edge_count = memory.edges;
    work_.sources = memory.sources;
    work_.targets = memory.targets;
    work_.visited = memory.visited;
    work_.frontier = memory.frontier;
    work_.of_column = memory.column;
    work_.reached = memory.reached;
    work_.levels = memory.levels;
    work_.counts = memory.counts;
    work_.over = over_.data();
    // A process has its own number at each of the others'.
    std::vector<MailRoute> rows, columns;
    for (int row = 0; row < grid.rows; ++row)
      rows.push_back({row == grid.row ? -1 : grid.rank(row, grid.column), grid.row});
    for (int column = 0; column < grid.columns; ++column)
      columns.push_back({column == grid.column ? -1 : grid.rank(grid.row, column), grid.column});
    const std::size_t bytes = static_cast<std::size_t>(work_.words) * sizeof(Word);
    work_.expand = kernel_.mail(rows, bytes, part_bytes);
    work_.fold = kernel_.mail(columns, bytes, part_bytes);
    unsigned* const tasks = work_.fusion.tasks;
    tasks[expand_sends] = tasks[expand_arrivals] = work_.expand.tasks();
    tasks[fold_sends] = tasks[fold_arrivals] = work_.fold.tasks();
    tasks[locals] = tasks_for(static_cast<long>(work_.words) * grid.columns, 4 * words_of_task, most_tasks);
    tasks[edges] = tasks_for(memory.edges, edges_of_task, most_tasks);
    tasks[folds] = tasks_for(work_.words, words_of_task, most_tasks);
    tasks[asks] = kernel_.reaches_all(work_.expand) ? 1 : 0;
    work_.fusion.steps = static_cast<unsigned>(tasks[asks] > 0 ? most_levels : ahead);
  }

  [[nodiscard]] int levels_at_once() const override { return static_cast<int>(work_.fusion.steps); }
  std::optional<bool> run(int& depth) override {
    engine_.clear(over_.data(), over_.bytes());
    work_.depth = depth;
    kernel_.launch(work_, most_blocks);
    int over[2] = {0, 0};
    over_.read(over);
    kernel_.check();
    // Levels that were not begun have used no place.
    const int done = over[0] > 0 ? over[0] - depth : levels_at_once();
    work_.first_turn = (work_.first_turn + static_cast<unsigned>(done)) % KernelMail::turn_count;
    depth += done;
    if (work_.fusion.tasks[asks] == 0) return std::nullopt;
    return over[0] > 0;
  }

 private:
  const apps::gpu::Engine& engine_;
  FusedKernel kernel_;
  Buffer<int> over_;
  FusedWork work_{};
};

}  // namespace

std::unique_ptr<KernelForm> make_kernel_form(const apps::gpu::Engine& engine, MPI_Comm comm, const Grid& grid,
                                             const Memory& memory, int ahead) {
  return std::make_unique<Fused>(engine, comm, grid, memory, ahead);
}

}  // namespace breadth_first

#else

namespace breadth_first {

std::unique_ptr<KernelForm> make_kernel_form(const apps::gpu::Engine&, MPI_Comm, const Grid&, const Memory&,
                                             int) {
  throw std::runtime_error("the form 'kernel' needs an MPI with <isthmus/device.hpp>, as Isthmus has it");
}

}  // namespace breadth_first

#endif
