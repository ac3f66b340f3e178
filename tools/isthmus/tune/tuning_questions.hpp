#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "measure/network_pair.hpp"
#include "measure/pair_runs.hpp"
#include "route/tuning.hpp"

/// What `isthmus tune` asks the machine, and how it reads the answers.
namespace isthmus::tool {

/// A curve and the setting that it decides.
struct Question {
  std::string variable;
  Curve curve;
  /// Of several candidates, their values; empty where two ways cross at a size.
  std::vector<std::uint64_t> candidates;
  std::size_t usual = 0;       ///< the default: position among candidates, or how many sizes go the first way
  std::uint64_t below = 2048;  ///< the value where no size goes the first way
  bool first_above = false;  ///< the setting is the first size of the second way, else the last of the first
  std::string only_up;       ///< where the curve can raise the setting but not lower it: why
};

/// A question that has been measured.
struct Answered {
  Question question;
  tuning::Value value;
};

/// From which size on both sides copy. First, because other curves depend on it.
Question split_question();
/// Those whose curves depend on where both sides begin to copy.
std::vector<Question> further_questions(std::uint64_t split_from);
/// The network's eager limit.
Question network_question(const NetworkPair& pair);

/// Those of GPU memory. `gpus`: how many there are; ranks on one GPU have no choice of who copies.
std::vector<Question> gpu_questions(int gpus);
/// Of messages from GPU memory over the network.
Question gpu_chunk_question(const NetworkPair& pair);

/// The value that a measured curve speaks for, and why.
tuning::Value answer(const Question& question);

/// "16 KiB"
std::string size_text(std::uint64_t bytes);

}  // namespace isthmus::tool
