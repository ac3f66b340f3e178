// Searches, a level at a time.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "common/gpu/engine.hpp"
#include "common/gpu/exchange.hpp"
#include "graph.hpp"
#include "kernel_form.hpp"
#include "options.hpp"
#include "work.hpp"

namespace breadth_first {

// One form of communication. Collective, as all here.
class Search {
 public:
  // The engine and the communicator are borrowed.
  Search(const Options& options, const Grid& grid, const LocalEdges& edges, const apps::gpu::Engine& engine,
         apps::gpu::Form form, MPI_Comm comm);
  ~Search();

  // The seconds that it took. `is_watched`: tools such as `isthmus model` count it.
  double run(int root, bool is_watched);
  // Of this process's vertices.
  [[nodiscard]] std::vector<int> levels() const;
  // That the last search went through, those included that found nothing.
  [[nodiscard]] int depth() const { return depth_; }

 private:
  void begin(int root);
  void one_level(int depth);
  // As many as go without the host's looking; whether the last one has found nothing anywhere.
  bool run_levels();
  [[nodiscard]] bool is_over(int depth);

  static constexpr int most_depth = 4096;
  const Options& options_;
  const Grid grid_;
  const apps::gpu::Engine& engine_;
  const apps::gpu::Form form_;
  MPI_Comm comm_;
  const int words_;  // of a part
  apps::gpu::Communication communication_;
  const long edge_count_;
  apps::gpu::Buffer<int> sources_, targets_, levels_, counts_;
  apps::gpu::Buffer<Word> visited_, frontier_, column_,
      reached_;                                         // of this part, of it, of the column's, of the row's
  std::unique_ptr<apps::gpu::Exchange> expand_, fold_;  // along the column, along the row
  std::unique_ptr<KernelForm> by_kernels_;              // null in other forms
  int depth_ = 0;
};

}  // namespace breadth_first
