// Broadcasts by any call, checked and measured.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string_view>

#include "common/pages.hpp"
#include "host/job.hpp"

namespace isthmus::bench {

enum class Roots {
  moving,  // on by one rank each time, so that no rank can run ahead
  fixed,   // always rank 0
};

template <class Broadcast>
void check_broadcast(const Job& job, std::string_view point, Pages& buffer, int root, unsigned round,
                     Broadcast broadcast) {
  if (job.rank() == root)
    buffer.fill(static_cast<unsigned>(root), round);
  else
    buffer.clear();
  broadcast(buffer, root);
  job.demand(point, fault_text(buffer.mismatch(static_cast<unsigned>(root), round)));
}

// `broadcast(buffer, root)` returns when the data is there.
template <class Broadcast>
void measure_broadcasts(const Job& job, std::string_view point, std::size_t bytes, Roots roots,
                        Broadcast broadcast) {
  Pages buffer(bytes);
  check_broadcast(job, point, buffer, roots == Roots::moving ? job.ranks() - 1 : 0, 1, broadcast);
  job.measure(point, {.unit = Unit::microseconds}, [&, root = 0]() mutable {
    broadcast(buffer, root);
    if (roots == Roots::moving) root = (root + 1) % job.ranks();
  });
  check_broadcast(job, point, buffer, 0, 2, broadcast);
}

}  // namespace isthmus::bench
