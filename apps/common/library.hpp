// Which MPI runs the program.
#pragma once

#include <string>

namespace apps {

// The first line of what the library says of itself.
[[nodiscard]] std::string library();

}  // namespace apps
