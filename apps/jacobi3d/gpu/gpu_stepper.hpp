// The iteration on a GPU.
#pragma once

#include <mpi.h>

#include <memory>

#include "halo.hpp"
#include "stepper.hpp"

namespace jacobi {

// Faces are packed by a kernel, and travel by MPI from the GPU's memory (`HaloKind::aware`) or by way of the
// host's (`HaloKind::staged`). The same bits as on the host.
[[nodiscard]] std::unique_ptr<Stepper> make_gpu_stepper(HaloKind halo, const Block& block,
                                                        const Field& initial, const Field& source,
                                                        MPI_Comm comm);

}  // namespace jacobi
