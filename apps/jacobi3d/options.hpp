// What the command line may say.
#pragma once

#include <optional>
#include <variant>

#include "common/command_line.hpp"
#include "common/gpu/form_options.hpp"
#include "decomposition.hpp"
#include "halo.hpp"

namespace jacobi {

enum class Method { jacobi, chebyshev };

struct Options {
  int n = 128;
  int iterations = 0;  // 0: twice what theory says the tolerance takes
  double tolerance = 1e-6;
  int residual_every = 10;
  Method method = Method::chebyshev;
  apps::gpu::FormOptions how;
  HaloKind halo = HaloKind::datatype;
  std::optional<Triple> grid;  // nothing: choose_grid()
  apps::Output output;
  bool check = false;
  bool survive = false;
};

// `processes` is how many there are to share the work.
[[nodiscard]] std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int processes);

}  // namespace jacobi
