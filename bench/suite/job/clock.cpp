#include "suite/job/clock.hpp"

#include <vector>

#include "suite/job/job.hpp"

namespace isthmus::bench {
namespace {

constexpr int exchanges = 50;
constexpr int clock_tag = 3;

void answer() {
  for (int i = 0; i < exchanges; ++i) {
    call(MPI_Recv(nullptr, 0, MPI_BYTE, 0, clock_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    const double here = now_seconds();
    call(MPI_Send(&here, 1, MPI_DOUBLE, 0, clock_tag, MPI_COMM_WORLD), "MPI_Send");
  }
}

Offset ask(int rank) {
  std::vector<Exchange> seen;
  for (int i = 0; i < exchanges; ++i) {
    Exchange exchange{now_seconds(), 0, 0};
    call(MPI_Send(nullptr, 0, MPI_BYTE, rank, clock_tag, MPI_COMM_WORLD), "MPI_Send");
    call(MPI_Recv(&exchange.theirs, 1, MPI_DOUBLE, rank, clock_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
         "MPI_Recv");
    exchange.back = now_seconds();
    seen.push_back(exchange);
  }
  return offset_of(seen);
}

}  // namespace

SynchronisedClock::SynchronisedClock(const Job& job) {
  for (int rank = 1; rank < job.ranks(); ++rank) {
    if (job.rank() == rank) {
      answer();
      Offset offset;
      call(MPI_Recv(&offset, 2, MPI_DOUBLE, 0, clock_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
      own_ = {-offset.seconds, offset.error};
    } else if (job.rank() == 0) {
      const Offset offset = ask(rank);
      call(MPI_Send(&offset, 2, MPI_DOUBLE, rank, clock_tag, MPI_COMM_WORLD), "MPI_Send");
    }
  }
  call(MPI_Allreduce(&own_.error, &error_, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
}

}  // namespace isthmus::bench
