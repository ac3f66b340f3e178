// What is printed before and after the solution.
#pragma once

#include <mpi.h>

#include "decomposition.hpp"
#include "options.hpp"
#include "solver.hpp"

namespace jacobi {

// Collective; rank 0 prints.
void print_setting(const Options& options, const Block& block, MPI_Comm comm);
void print_result(const Options& options, const Solution& solution, MPI_Comm comm);

// Holds a solution against one on a grid half as fine: the error must fall with the square of the spacing,
// and the residual as fast as theory says. Rank 0 prints. True if both hold.
[[nodiscard]] bool check_convergence(const Problem& fine, const Solution& solution, const Problem& coarse,
                                     const Solution& coarse_solution, bool speaks);

}  // namespace jacobi
