// The forms in which an application's processes exchange what their GPUs compute.
#pragma once

#include <string>

namespace apps::gpu {

enum class Form {
  sync,    // the host waits for its kernels, calls MPI, and launches the next kernels
  stream,  // messages are enqueued on the stream, and the host waits for nothing
  graph,   // the same, captured once and launched again and again
  kernel,  // kernels send and wait
};

// How messages of a stream travel.
enum class StreamWay {
  prepared,  // <isthmus/stream.hpp>: by the stream alone
  mpi,       // <mpi-ext.h>: MPIX_Isend_enqueue and so on, to anywhere
};

[[nodiscard]] inline std::string name_of(Form form) {
  switch (form) {
    case Form::sync:
      return "sync";
    case Form::stream:
      return "stream";
    case Form::graph:
      return "graph";
    case Form::kernel:
      return "kernel";
  }
  return "?";
}

}  // namespace apps::gpu
