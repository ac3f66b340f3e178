#pragma once

#include <string>

namespace isthmus::tool {

struct SimulateOptions {
  std::string costs;    ///< file of what was measured
  int gpus = 1536;      ///< where the curves end
  double within = 0;    ///< per cent that a measured point may be off; 0: any
  bool json = false;    ///< one object instead of text
  std::string picture;  ///< file to draw into; empty: none
};
/// `isthmus simulate`: 0; 1 where a point is further off, or nothing could be drawn; 2 for a file that is
/// none.
int simulate_job(const SimulateOptions& options);

}  // namespace isthmus::tool
