#pragma once

#include <string>
#include <vector>

#include "model/equations.hpp"

namespace isthmus::tool::model {

struct Findings {
  std::vector<Parts> parts;  ///< by rank
  Prediction prediction;
  double bytes = 0;           ///< that a process sends, the mean
  std::string why_no_stream;  ///< empty: messages in a stream were measured
  std::string why_no_kernel;  ///< empty: and in which time kernels meet
};

/// What a person reads.
std::string to_text(const Findings& findings);
/// One line.
std::string to_json(const Findings& findings);

}  // namespace isthmus::tool::model
