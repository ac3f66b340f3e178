// The kernel form: one kernel for many levels.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>

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

  // How many levels a call of `run` goes through at most.
  [[nodiscard]] virtual int levels_at_once() const = 0;
  // Levels after `depth`, which is 0 at the beginning of a search, and becomes that of the last one. Waits
  // for them. Returns whether that one has found nothing anywhere; nothing where kernels could not ask.
  // Throws where a kernel was refused something, or a process has died.
  virtual std::optional<bool> run(int& depth) = 0;

 protected:
  KernelForm() = default;
};

// Collective; the engine is borrowed. `ahead`: levels between two looks of the host, where kernels do not
// reach all processes and so cannot ask these. Throws std::runtime_error where this MPI has no
// <isthmus/device.hpp>, or no kernels for it.
[[nodiscard]] std::unique_ptr<KernelForm> make_kernel_form(const apps::gpu::Engine& engine, MPI_Comm comm,
                                                           const Grid& grid, const Memory& memory, int ahead);

}  // namespace breadth_first
