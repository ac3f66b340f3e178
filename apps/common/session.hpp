// The frame of an application's main.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <exception>

namespace apps {

// MPI is initialised while it lives.
class Mpi {
 public:
  Mpi(int* argc, char*** argv) { MPI_Init(argc, argv); }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  ~Mpi() { MPI_Finalize(); }
};

// The exit status that `run(argc, argv)` returns, called with MPI initialised. What it throws ends the job,
// with one line.
template <class Run>
int run_with_mpi(const char* program, int argc, char** argv, Run run) {
  const Mpi mpi(&argc, &argv);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return 1;
}

}  // namespace apps
