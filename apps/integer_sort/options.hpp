// What the command line may say.
#pragma once

#include <variant>

#include "common/command_line.hpp"
#include "problem.hpp"

namespace integer_sort {

struct Options {
  const Problem* problem = nullptr;  // of find_problem()
  apps::Output output;
};

[[nodiscard]] std::variant<Options, apps::Refusal> read_command_line(int argc, char** argv, int processes);

}  // namespace integer_sort
