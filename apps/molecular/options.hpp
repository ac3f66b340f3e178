// What the command line may say.
#pragma once

#include <variant>

#include "common/command_line.hpp"
#include "common/gpu/form_options.hpp"

namespace molecular {

struct Options {
  apps::gpu::FormOptions how;
  int edge = 8;     // of a process's box, in cubic cells of four atoms
  int steps = 100;  // of a run
  int repeats = 3;
  double step = 1;           // femtoseconds
  double temperature = 600;  // kelvin
  bool json = false;
};

[[nodiscard]] std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int processes);

}  // namespace molecular
