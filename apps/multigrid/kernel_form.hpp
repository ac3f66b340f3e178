// The kernel form: one kernel for all sweeps between two changes of level.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "common/gpu/engine.hpp"
#include "problem.hpp"
#include "work.hpp"

namespace multigrid {

class KernelForm {
 public:
  // Collective; the engine is borrowed. `most_steps`: exchanges in one launch. Throws std::runtime_error
  // where this MPI has no <isthmus/device.hpp>, or no kernels for it.
  KernelForm(const apps::gpu::Engine& engine, MPI_Comm comm, int most_steps);
  KernelForm(const KernelForm&) = delete;
  KernelForm& operator=(const KernelForm&) = delete;
  // Collective. The stream has passed all.
  ~KernelForm();

  // The next coarser level. Collective.
  void add(const Level& level, const Division& division);
  // In the order of the stream, on the level `depth`; the exchanges begin it.
  void smooth(std::size_t depth, int half_sweeps);
  void restrict_from(std::size_t depth);
  void interpolate_from(std::size_t depth);
  // Throws where a kernel was refused something, or a process has died.
  void check() const;

 private:
  struct Ways;
  std::unique_ptr<Ways> ways_;
};

}  // namespace multigrid
