// The iteration on a GPU.
#pragma once

#include <mpi.h>

#include <memory>

#include "options.hpp"
#include "stepper.hpp"

namespace jacobi {

// The same bits as on the host, whichever way faces travel. In all forms but the synchronous one nothing
// waits but what measures.
[[nodiscard]] std::unique_ptr<Stepper> make_gpu_stepper(const Options& options, apps::gpu::Form form,
                                                        const Block& block, const Field& initial,
                                                        const Field& source, MPI_Comm comm);

}  // namespace jacobi
