// What iterates over a block: the processor, or a GPU.
#pragma once

#include <mpi.h>

#include <memory>

#include "decomposition.hpp"
#include "field.hpp"
#include "options.hpp"

namespace jacobi {

// One iteration at a time: older <- older + weight (J(now) - older), where J is a Jacobi step; then the two
// change places.
class Stepper {
 public:
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;
  virtual ~Stepper() = default;

  // Fills the layer around the current values with the neighbours'. Collective over them.
  virtual void exchange() = 0;
  // With `measure`, returns max |J(now) - now|, which is h^2/6 times the residual of the current values;
  // infinity if it is not finite.
  virtual double sweep(double weight, bool measure) = 0;
  virtual void swap() = 0;
  // Where sweeps exchange by themselves: from now on they do not, and the layer stays as it is. Right behind
  // a sweep that has measured. Elsewhere the caller leaves `exchange` out.
  virtual void leave_exchange_out() {}
  // The current values, on the host.
  virtual const Field& values() = 0;

 protected:
  Stepper() = default;
};

// One sweep of the processor over a block: `older` becomes the next values. As `Stepper::sweep`.
double sweep(const Field& now, Field& older, const Field& source, double weight, bool measure);

// `initial`: values with the boundary around them; `source`: h^2 f. The communicator is borrowed. Throws
// where there is no GPU and the options ask for one, or this MPI has no such form.
[[nodiscard]] std::unique_ptr<Stepper> make_stepper(const Options& options, apps::gpu::Form form,
                                                    const Block& block, const Field& initial,
                                                    const Field& source, MPI_Comm comm);

}  // namespace jacobi
