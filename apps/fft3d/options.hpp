// What the command line may say.
#pragma once

#include <variant>

#include "common/command_line.hpp"
#include "pencils.hpp"
#include "transform.hpp"

namespace fft {

struct Options {
  Triple points{128, 128, 128};
  Grid grid{1, 1};
  int iterations = 10;
  Exchange exchange = Exchange::alltoallv;
  int pieces = 1;  // of each transpose
  Planning planning = Planning::measure;
  apps::Output output;
};

// `processes` is how many there are to share the work.
[[nodiscard]] std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int processes);

}  // namespace fft
