#pragma once

#include <algorithm>
#include <string>
#include <vector>

/// What a program gains where its GPUs communicate by themselves: the performance model of Agostini, Rossetti
/// and Potluri, "GPUDirect Async: exploring GPU synchronous communication techniques for InfiniBand clusters"
/// (2018), sections 4.1 to 4.3. Pure functions of measured parts. All times are seconds, sums over what was
/// observed.
namespace isthmus::tool::model {

/// Kernels and copies of one of the paper's places, A, B or C, each timed by itself.
struct Stage {
  double seconds = 0;
  double pieces = 0;  ///< how many
};

/// What the least piece of work that a GPU can be told to do takes: one of many in a row, and one right
/// behind a wait for a message.
struct Piece {
  double in_a_row = 0;
  double behind_wait = 0;
};

/// What one process's synchronous run is made of. A, B and C are the paper's: kernels (and copies) that come
/// right before a message is sent, between sending and waiting, and behind the wait.
struct Parts {
  double total = 0;            ///< T_S
  double launch = 0;           ///< L_A + L_B + L_C: the host enqueues kernels and copies
  double gpu_wait = 0;         ///< T_H: the host waits for its GPU
  double send = 0;             ///< S: the host posts sends and receives
  double wait = 0;             ///< W: the host waits for messages
  double collective = 0;       ///< collective calls of MPI, which keep their time in all forms
  Stage a, b, c;               ///< on the GPU
  double stream_exchange = 0;  ///< S + W in the order of a stream: how long it is kept by the same messages
  double stream_enqueue = 0;   ///< L_S + L_W: the host enqueues these
  double graph_exchange = 0;   ///< S + W in a graph
  double bare_exchange = 0;    ///< the same, with messages of 8 bytes
  double piece_alone = 0;      ///< the least piece of work by itself, as A, B and C were timed
  Piece piece_in_stream, piece_in_graph;
  double graph_enqueue = 0;  ///< the host's time for each piece of a graph that it launches
  double meeting = 0;        ///< once, of kernels of all processes: each has heard of all others
  double launches = 0, gpu_waits = 0, exchanges = 0, messages = 0;  ///< how many

  /// A + B + C where messages are waited for in a stream or a graph: the first piece behind a wait does not
  /// come in a row with others.
  [[nodiscard]] double gpu(const Piece& piece) const {
    return gpu(piece.in_a_row) +
           std::min(exchanges, c.pieces) * std::max(0.0, piece.behind_wait - piece.in_a_row);
  }
  /// What the GPU computes, if each piece of it takes so much beside: A + B + C.
  [[nodiscard]] double gpu(double piece) const {
    return in_a_row(a, piece) + in_a_row(b, piece) + in_a_row(c, piece);
  }
  [[nodiscard]] double in_a_row(const Stage& stage, double piece) const {
    return std::max(0.0, stage.seconds - stage.pieces * piece_alone) + stage.pieces * piece;
  }
};

/// One of the paper's conditions: it holds where `left` < `right`.
struct Condition {
  double left = 0, right = 0;
  [[nodiscard]] bool holds() const { return left < right; }
};

struct Prediction {
  double sync = 0;
  double idle = 0;        ///< of the GPU in the synchronous form; what a row saves it is idle time too
  double stream_gpu = 0;  ///< T_GPU of the stream form; unlike equation 2, B goes on while messages travel
  double stream_cpu = 0;  ///< the host's time for enqueueing it
  double stream = 0;      ///< the larger of the two, equation 2 with and without C1
  double graph_gpu = 0;   ///< T_GPU of the same, captured once and launched as a graph
  double graph_cpu = 0;   ///< the host's time for launching it
  double graph = 0;       ///< the larger of the two
  /// Equation 3 with launches taken off: what is a kernel in the other forms is a phase of one here, behind a
  /// barrier between its blocks, and exchanges are words that kernels write into each other's memory. At
  /// worst a barrier takes as long as a meeting of all GPUs, and A + S, B and W + C come one behind the
  /// other; at best it takes nothing, and they overlap as much as they can.
  double kernel_worst = 0, kernel_best = 0;
  double kernel_exchange = 0;  ///< S + W of both
  Condition c1;                ///< enqueueing < what the GPU does with it
  Condition c2;                ///< S + W in a stream < idle
  double fragments = 0;        ///< C3: kernels between two waits; one or more
  [[nodiscard]] bool c3() const { return fragments >= 1; }

  /// The share of the synchronous time that a form saves, in percent; negative: it loses.
  [[nodiscard]] double gain(double form) const { return sync > 0 ? 100 * (1 - form / sync) : 0; }
};

[[nodiscard]] Prediction predict(const Parts& parts);

/// Of all processes: they go at the pace of the slowest. Each form's time is the largest; conditions are
/// those of the process whose GPU has most to do. `parts` has one or more.
[[nodiscard]] Prediction predict(const std::vector<Parts>& parts);

}  // namespace isthmus::tool::model
