// Solving although processes die.
#pragma once

#include <mpi.h>

#include "options.hpp"
#include "problem.hpp"

namespace jacobi {

// Whether this MPI lets a program go on without processes that have died.
[[nodiscard]] bool can_survive();

// As `solve`, and prints the result: the same, to the last bit, whoever has died meanwhile. Each process
// keeps, of every iteration that measures the residual, its own block and its left neighbour's in memory;
// when one has died, those who live share the cube anew among them and go on from there. Where a process and
// the one that keeps its block die at once they begin again. Collective; the program's exit status.
int solve_surviving(const Options& options, const Problem& problem, MPI_Comm comm);

}  // namespace jacobi
