// jacobi3d: a 3-D Poisson solver in plain MPI. See --help.
#include <mpi.h>

#include <cstdio>
#include <exception>

#include "decomposition.hpp"
#include "options.hpp"
#include "problem.hpp"
#include "report.hpp"
#include "solver.hpp"

namespace {

// MPI is initialised while it lives.
class Mpi {
 public:
  Mpi(int* argc, char*** argv) { MPI_Init(argc, argv); }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  ~Mpi() { MPI_Finalize(); }
};

int run(int argc, char** argv) {
  using namespace jacobi;
  MPI_Comm comm = MPI_COMM_WORLD;
  int rank = 0;
  int processes = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &processes);

  const CommandLine line = read_command_line(argc, argv, processes);
  if (!line.options) {
    if (rank == 0)
      std::fprintf(line.status == 0 ? stdout : stderr, "%s%s",
                   line.status == 0 ? "" : "jacobi3d: ", line.message.c_str());
    return line.status;
  }
  const Options& options = *line.options;
  const Problem problem{options.n};
  const Block block = block_of(rank, *options.grid, options.n);
  print_setting(options, block, comm);
  const Solution solution = solve(options, problem, block, comm);
  print_result(options, solution, comm);
  bool correct = solution.within_bound() && (solution.converged || options.tolerance == 0);

  if (options.check) {
    const Problem coarse{options.n / 2};
    const Solution coarse_solution = solve(options, coarse, block_of(rank, *options.grid, coarse.n), comm);
    correct = check_convergence(problem, solution, coarse, coarse_solution, rank == 0) &&
              coarse_solution.within_bound() && correct;
  }
  return correct ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Mpi mpi(&argc, &argv);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "jacobi3d: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return 1;
}
