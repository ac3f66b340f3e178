#include "model/equations.hpp"

#include <algorithm>

namespace isthmus::tool::model {

Prediction predict(const Parts& parts) {
  Prediction result;
  result.sync = parts.total;
  result.idle = std::max(0.0, parts.total - parts.gpu());
  result.stream_gpu = parts.gpu() + parts.stream_exchange + parts.collective;
  result.stream_cpu = parts.launch + parts.stream_enqueue + parts.collective;
  result.stream = std::max(result.stream_gpu, result.stream_cpu);
  result.graph = std::max(0.0, parts.gpu() - parts.graph_saving) + parts.graph_exchange + parts.collective;
  result.kernel_worst = result.graph;
  // S and W cannot be told apart in a stream: what an exchange keeps it is mostly waiting, so it goes with C.
  const double share = parts.gpu() > 0 ? std::max(0.0, parts.gpu() - parts.graph_saving) / parts.gpu() : 0;
  const double a = parts.a * share, b = parts.b * share, c = parts.c * share;
  const double overlap =
      b > 0 ? std::min({a, parts.graph_exchange + c, b}) : std::min(a, parts.graph_exchange + c);
  result.kernel_best = result.graph - overlap;
  result.c1 = {parts.launch + parts.stream_enqueue, parts.gpu() + parts.stream_exchange};
  result.c2 = {parts.stream_exchange, result.idle};
  const double waits = parts.gpu_waits + parts.exchanges;
  result.fragments = waits > 0 ? parts.launches / waits : 0;
  return result;
}

Prediction predict(const std::vector<Parts>& parts) {
  const auto busiest = std::ranges::max_element(
      parts, {}, [](const Parts& each) { return each.gpu() + each.stream_exchange + each.collective; });
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
