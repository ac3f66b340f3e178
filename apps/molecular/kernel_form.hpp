// The kernel form: one kernel for many time steps.
#pragma once

#include <mpi.h>

#include <memory>

#include "common/gpu/engine.hpp"
#include "crystal.hpp"
#include "work.hpp"

namespace molecular {

// What the time steps change.
struct Memory {
  Cell* cells[2];  // the current ones first
  Sums* sums;
  double* slopes;
  long* problems;
};

class KernelForm {
 public:
  KernelForm(const KernelForm&) = delete;
  KernelForm& operator=(const KernelForm&) = delete;
  // Collective.
  virtual ~KernelForm() = default;

  // So many time steps, an even number, in the order of the stream: the current cells stay the first ones.
  virtual void run(int steps) = 0;
  // Throws where a kernel was refused something, or a process has died. The stream has passed all.
  virtual void check() const = 0;

 protected:
  KernelForm() = default;
};

// Collective; the engine is borrowed. `step`: femtoseconds. Throws std::runtime_error where this MPI has no
// <isthmus/device.hpp>, or no kernels for it.
[[nodiscard]] std::unique_ptr<KernelForm> make_kernel_form(const apps::gpu::Engine& engine, MPI_Comm comm,
                                                           const Crystal& crystal, const Memory& memory,
                                                           double step);

}  // namespace molecular
