// The iteration on a GPU.
#pragma once

#include <mpi.h>

#include <memory>

#include "halo.hpp"
#include "stepper.hpp"

namespace jacobi {

// This process's number among those of its host, by which it takes its GPU.
namespace gpu {
[[nodiscard]] int number_on_host(MPI_Comm comm);
}  // namespace gpu

// The same bits as on the host, whichever way faces travel.
[[nodiscard]] std::unique_ptr<Stepper> make_gpu_stepper(HaloKind halo, const Block& block,
                                                        const Field& initial, const Field& source,
                                                        MPI_Comm comm);

}  // namespace jacobi
