// The kernel form: one kernel for many levels.
#pragma once

#include <mpi.h>

#include <memory>

#include "common/gpu/engine.hpp"
#include "graph.hpp"
#include "work.hpp"

namespace breadth_first {

// What a level reads and changes.
struct Memory {
  long edges;
  const int* sources;
  const int* targets;
  Word *visited, *frontier, *column, *reached;
  int *levels, *counts;
};

class KernelForm {
 public:
  KernelForm(const KernelForm&) = delete;
  KernelForm& operator=(const KernelForm&) = delete;
  // Collective.
  virtual ~KernelForm() = default;

  // Levels after `depth`, which is 0 at the beginning of a search. Waits for them. Returns the depth that
  // found nothing anywhere, or -1 with the depth that it has come to in `depth`. Throws where a kernel was
  // refused something, a process has died, or a level would be `most` or more.
  virtual int run(int& depth, int most) = 0;

 protected:
  KernelForm() = default;
};

// Collective; the engine is borrowed. `ahead`: levels between two looks of the host, where kernels do not
// reach all processes and so cannot ask these. Throws std::runtime_error where this MPI has no
// <isthmus/device.hpp>, or no kernels for it.
[[nodiscard]] std::unique_ptr<KernelForm> make_kernel_form(const apps::gpu::Engine& engine, MPI_Comm comm,
                                                           const Grid& grid, const Memory& memory, int ahead);

}  // namespace breadth_first
