#pragma once

#include <string>
#include <vector>

/// What a program gains where its GPUs communicate by themselves: the performance model of Agostini, Rossetti
/// and Potluri, "GPUDirect Async: exploring GPU synchronous communication techniques for InfiniBand clusters"
/// (2018), sections 4.1 to 4.3. Pure functions of measured parts. All times are seconds, sums over what was
/// observed.
namespace isthmus::tool::model {

/// What one process's synchronous run is made of. A, B and C are the paper's: kernels (and copies) that come
/// right before a message is sent, between sending and waiting, and behind the wait.
struct Parts {
  double total = 0;            ///< T_S
  double launch = 0;           ///< L_A + L_B + L_C: the host enqueues kernels and copies
  double gpu_wait = 0;         ///< T_H: the host waits for its GPU
  double send = 0;             ///< S: the host posts sends and receives
  double wait = 0;             ///< W: the host waits for messages
  double collective = 0;       ///< collective calls of MPI, which keep their time in all forms
  double a = 0, b = 0, c = 0;  ///< on the GPU, one behind the other in a stream
  double stream_exchange = 0;  ///< S + W in the order of a stream: how long it is kept by the same messages
  double stream_enqueue = 0;   ///< L_S + L_W: the host enqueues these
  double graph_exchange = 0;   ///< S + W in a graph
  double graph_saving = 0;     ///< what kernels take less, one behind the other, in a graph
  double launches = 0, gpu_waits = 0, exchanges = 0, messages = 0;  ///< how many

  [[nodiscard]] double gpu() const { return a + b + c; }
};

/// One of the paper's conditions: it holds where `left` < `right`.
struct Condition {
  double left = 0, right = 0;
  [[nodiscard]] bool holds() const { return left < right; }
};

struct Prediction {
  double sync = 0;
  double idle = 0;        ///< of the GPU in the synchronous form
  double stream_gpu = 0;  ///< T_GPU of the stream form
  double stream_cpu = 0;  ///< the host's time for enqueueing it
  double stream = 0;      ///< the larger of the two, equation 2 with and without C1
  double graph = 0;       ///< T_GPU of the same, enqueued once and launched as a graph
  /// Equation 3, with A + S, B and W + C one behind the other, and with the most overlap. Within a kernel
  /// there is no more between its parts than in a graph.
  double kernel_worst = 0, kernel_best = 0;
  Condition c1;          ///< enqueueing < what the GPU does with it
  Condition c2;          ///< S + W in a stream < idle
  double fragments = 0;  ///< C3: kernels between two waits; one or more
  [[nodiscard]] bool c3() const { return fragments >= 1; }

  /// The share of the synchronous time that a form saves, in percent; negative: it loses.
  [[nodiscard]] double gain(double form) const { return sync > 0 ? 100 * (1 - form / sync) : 0; }
};

[[nodiscard]] Prediction predict(const Parts& parts);

/// Of all processes: they go at the pace of the slowest. Each form's time is the largest; conditions are
/// those of the process whose GPU has most to do. `parts` has one or more.
[[nodiscard]] Prediction predict(const std::vector<Parts>& parts);

}  // namespace isthmus::tool::model
