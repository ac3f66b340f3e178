// The iteration on a GPU.
#pragma once

#include <mpi.h>

#include <memory>

#include "halo.hpp"
#include "stepper.hpp"

namespace jacobi {

// The same bits as on the host, whichever way faces travel.
[[nodiscard]] std::unique_ptr<Stepper> make_gpu_stepper(HaloKind halo, const Block& block,
                                                        const Field& initial, const Field& source,
                                                        MPI_Comm comm);

}  // namespace jacobi
