#pragma once

#include <string>
#include <vector>

namespace isthmus::tool {

struct ModelOptions {
  bool json = false;
  std::string picture;  ///< file to draw into; empty: none
  std::vector<std::string> command;
};
/// `isthmus model`: runs the command twice, watched, and says what other forms of communication would take.
/// Its status is the command's, or 1 where that is 0 and nothing can be said.
int model_job(const ModelOptions& options);

}  // namespace isthmus::tool
