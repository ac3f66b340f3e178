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
  Sum a, b, c;
  double exchanges = 0, messages = 0, bytes = 0;
  double gpu_count = 0;
  double stream_exchanges = 0, stream_seconds = 0, enqueue_seconds = 0, graph_seconds = 0, bare_seconds = 0;
  double piece_alone = 0, graph_enqueue = 0;
  Piece piece_in_stream, piece_in_graph;
  double meeting = 0;
  std::string why_not;         ///< the messages could not be measured in a stream
  std::string why_no_meeting;  ///< nor in which time kernels meet
};

/// Why it is none, in words.
std::expected<Observed, std::string> read_observed(std::string_view text);

/// One process's parts, of the run that times the host and of the one that times kernels.
Parts parts_of(const Observed& host, const Observed& kernels);

}  // namespace isthmus::tool::model
