#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isthmus::tool {

struct ExplainOptions {
  bool full = false;
  bool json = false;
  std::string picture;  ///< file to draw into; empty: none
  std::vector<std::string> command;
};
/// `isthmus explain`: becomes the command. With `picture` runs it instead; its status is the command's then,
/// or 1 where that is 0 and there is no picture.
int explain(const ExplainOptions& options);

}  // namespace isthmus::tool
