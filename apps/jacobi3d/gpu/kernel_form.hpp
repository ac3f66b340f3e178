// The kernel form: one kernel for all iterations from one residual to the next.
#pragma once

#include <mpi.h>

#include <memory>

#include "common/gpu/engine.hpp"
#include "gpu/gpu_block.hpp"

namespace jacobi::gpu {

class KernelForm {
 public:
  KernelForm(const KernelForm&) = delete;
  KernelForm& operator=(const KernelForm&) = delete;
  // Collective.
  virtual ~KernelForm() = default;

  // An exchange and a sweep of the block's current values, which are put off until `flush`, or until there
  // are many. The caller swaps behind each but the last.
  virtual void add(double weight) = 0;
  // Enqueues what was put off. `largest`: of the last one, as SweepWork's; or null.
  virtual void flush(unsigned long long* largest) = 0;
  // From now on values beside a neighbour's are computed from what that has sent last. Nothing is put off. On
  // all processes, or on none.
  virtual void leave_exchange_out() = 0;
  // Throws where a kernel was refused something, or a process has died. The stream has passed all.
  virtual void check() const = 0;

 protected:
  KernelForm() = default;
};

// Collective; the engine and the block are borrowed. Throws std::runtime_error where this MPI has no
// <isthmus/device.hpp>, or no kernels for it.
[[nodiscard]] std::unique_ptr<KernelForm> make_kernel_form(const apps::gpu::Engine& engine, MPI_Comm comm,
                                                           const GpuBlock& block);

}  // namespace jacobi::gpu
