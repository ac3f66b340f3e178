// The iteration on a GPU.
#pragma once

#include <mpi.h>

#include <memory>

#include "options.hpp"
#include "stepper.hpp"

namespace jacobi {

// The same bits as on the host, whichever way faces travel. With the options' form `stream` nothing waits but
// what measures.
[[nodiscard]] std::unique_ptr<Stepper> make_gpu_stepper(const Options& options, const Block& block,
                                                        const Field& initial, const Field& source,
                                                        MPI_Comm comm);

}  // namespace jacobi
