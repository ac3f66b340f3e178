// What the command line may say.
#pragma once

#include <variant>

#include "common/command_line.hpp"
#include "common/gpu/form_options.hpp"
#include "graph.hpp"

namespace breadth_first {

struct Options {
  apps::gpu::FormOptions how;
  Graph graph{16, 16};
  int roots = 4;
  int repeats = 5;
  int ahead = 2;  // levels that are enqueued between two looks whether anything is left
  bool json = false;
};

[[nodiscard]] std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int processes);

}  // namespace breadth_first
