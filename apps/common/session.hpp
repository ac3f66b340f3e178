// The frame of an application's main.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <exception>
#include <variant>

#include "common/command_line.hpp"
#include "common/member.hpp"

namespace apps {

// MPI is initialised while it lives.
class Mpi {
 public:
  Mpi(int* argc, char*** argv) { MPI_Init(argc, argv); }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  ~Mpi() { MPI_Finalize(); }
};

// With MPI initialised, `read(argc, argv, processes)` gives options or a refusal, and `work(options, member)`
// is called with the options. Returns the exit status that it returns. What either throws ends the job, with
// one line.
template <class Read, class Work>
int run_application(const char* program, int argc, char** argv, Read read, Work work) {
  const Mpi mpi(&argc, &argv);
  try {
    const Member member(MPI_COMM_WORLD);
    const auto line = read(argc, argv, member.size);
    if (const auto* refusal = std::get_if<Refusal>(&line)) return refuse(program, *refusal, member);
    return work(std::get<0>(line), member);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return 1;
}

}  // namespace apps
