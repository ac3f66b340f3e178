// What the command line may say.
#pragma once

#include <variant>

#include "common/command_line.hpp"
#include "common/gpu/form_options.hpp"
#include "problem.hpp"

namespace multigrid {

struct Options {
  apps::gpu::FormOptions how;
  int box = 16;  // cells along an edge
  Triple boxes{2, 2, 2};
  double alpha = 0;
  int sweeps = 2;          // of the smoother, before and after a coarser level
  int bottom_sweeps = 24;  // on the coarsest level
  int cycles = 20;
  int repeats = 5;
  bool json = false;
};

[[nodiscard]] std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int processes);

}  // namespace multigrid
