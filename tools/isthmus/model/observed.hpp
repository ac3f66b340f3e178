#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "model/equations.hpp"

/// What the observer (`tools/isthmus/observer`) has written of a process. Pure functions.
namespace isthmus::tool::model {

struct Observed {
  int rank = -1, size = 0;
  double seconds = 0;
  struct Sum {
    double count = 0, seconds = 0;
  };
  Sum launch, gpu_wait, send, wait, collective;
  double exchanges = 0, messages = 0, bytes = 0;
  double gpu_count = 0, a = 0, b = 0, c = 0;
  double stream_exchanges = 0, stream_seconds = 0, enqueue_seconds = 0, graph_seconds = 0, saving = 0;
  std::string why_not;  ///< the messages could not be measured in a stream
};

/// Why it is none, in words.
std::expected<Observed, std::string> read_observed(std::string_view text);

/// One process's parts, of the run that times the host and of the one that times kernels.
Parts parts_of(const Observed& host, const Observed& kernels);

}  // namespace isthmus::tool::model
