// What the command line may say.
#pragma once

#include <optional>
#include <string>

#include "decomposition.hpp"
#include "halo.hpp"

namespace jacobi {

enum class Method { jacobi, chebyshev };
enum class ProgressStyle { automatic, bar, lines, none };

struct Options {
  int n = 128;
  int iterations = 0;  // 0: twice what theory says the tolerance takes
  double tolerance = 1e-6;
  int residual_every = 10;
  Method method = Method::chebyshev;
  bool gpu = false;
  HaloKind halo = HaloKind::datatype;  // with `gpu`, aware or staged
  std::optional<Triple> grid;          // nothing: choose_grid()
  ProgressStyle progress = ProgressStyle::automatic;
  bool check = false;
};

// Either options, or a text for the user and the status to exit with.
struct CommandLine {
  std::optional<Options> options;
  std::string message;
  int status = 0;
};

// `processes` is how many there are to share the work.
[[nodiscard]] CommandLine read_command_line(int argc, char** argv, int processes);

}  // namespace jacobi
