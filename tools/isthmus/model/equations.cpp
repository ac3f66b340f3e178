#include "model/equations.hpp"

#include <algorithm>

namespace isthmus::tool::model {

namespace {

/// S + W in the order of a stream or a graph, less what B hides: that lies between a put and the wait, and is
/// computed while bytes travel. The put itself and the end of the wait are pieces of the row, and hide
/// nothing.
double exposed(const Parts& parts, double exchange, const Piece& piece) {
  const double under_way = std::max(0.0, exchange - 2 * parts.messages * piece.in_a_row);
  return exchange - std::min(parts.in_a_row(parts.b, piece.in_a_row), under_way);
}

}  // namespace

Prediction predict(const Parts& parts) {
  Prediction result;
  result.sync = parts.total;
  const double busy = parts.gpu(parts.piece_in_stream);
  const double stream_exchange = exposed(parts, parts.stream_exchange, parts.piece_in_stream);
  result.idle = std::max(0.0, parts.total - busy);
  result.stream_gpu = busy + stream_exchange + parts.collective;
  result.stream_cpu = parts.launch + parts.stream_enqueue + parts.collective;
  result.stream = std::max(result.stream_gpu, result.stream_cpu);
  result.graph_gpu = parts.gpu(parts.piece_in_graph) +
                     exposed(parts, parts.graph_exchange, parts.piece_in_graph) + parts.collective;
  // A message is two pieces of a graph: it is sent, and waited for.
  result.graph_cpu = (parts.launches + 2 * parts.messages) * parts.graph_enqueue + parts.collective;
  result.graph = std::max(result.graph_gpu, result.graph_cpu);
  // What the bytes take is the same by kernels as by what a stream does; the rest of an exchange is a
  // meeting.
  result.kernel_exchange =
      parts.exchanges * parts.meeting + std::max(0.0, parts.graph_exchange - parts.bare_exchange);
  result.kernel_worst = parts.gpu(parts.meeting) + result.kernel_exchange + parts.collective;
  // S and W cannot be told apart: what an exchange takes is mostly waiting, so it goes with C.
  const double a = parts.in_a_row(parts.a, 0), b = parts.in_a_row(parts.b, 0), c = parts.in_a_row(parts.c, 0);
  const double overlap =
      b > 0 ? std::min({a, result.kernel_exchange + c, b}) : std::min(a, result.kernel_exchange + c);
  result.kernel_best = parts.gpu(0) + result.kernel_exchange + parts.collective - overlap;
  result.c1 = {parts.launch + parts.stream_enqueue, busy + stream_exchange};
  result.c2 = {stream_exchange, result.idle};
  const double waits = parts.gpu_waits + parts.exchanges;
  result.fragments = waits > 0 ? parts.launches / waits : 0;
  return result;
}

Prediction predict(const std::vector<Parts>& parts) {
  const auto busiest =
      std::ranges::max_element(parts, {}, [](const Parts& each) { return predict(each).stream_gpu; });
  Prediction result = predict(*busiest);
  for (const Parts& each : parts) {
    const Prediction other = predict(each);
    result.sync = std::max(result.sync, other.sync);
    result.stream = std::max(result.stream, other.stream);
    result.graph = std::max(result.graph, other.graph);
    result.kernel_best = std::max(result.kernel_best, other.kernel_best);
    result.kernel_worst = std::max(result.kernel_worst, other.kernel_worst);
  }
  return result;
}

}  // namespace isthmus::tool::model
