// What `isthmus tune` starts as two ranks: the time of one message at each size, in a line "SIZE
// MICROSECONDS".
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "batches.hpp"

namespace {

constexpr int window = 64;  ///< messages under way in the bandwidth mode

/// Data that its program has just made, as what programs send mostly is: a copy of what both processors have
/// in their caches already would let direct reading look twice as fast as it is.
void renew(char* data, int bytes) {
  for (int i = 0; i < bytes; i += 64)
    ++data[i];
}

struct Pair {
  int rank;
  int batches;
  std::vector<char> out, in;

  /// One way, half a round trip.
  double latency(int bytes, int trips) {
    double time = 0;
    for (int i = 0; i < trips; ++i) {
      renew(out.data(), bytes);
      const double begin = MPI_Wtime();
      if (rank == 0) MPI_Send(out.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(in.data(), bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (rank == 1) MPI_Send(out.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
      time += MPI_Wtime() - begin;
    }
    return time / trips / 2;
  }

  /// Of each of many messages under way at once, all from rank 0.
  double bandwidth(int bytes) {
    MPI_Request requests[window];
    if (rank == 0) renew(out.data(), bytes * window);
    const double begin = MPI_Wtime();
    for (int i = 0; i < window; ++i) {
      if (rank == 0)
        MPI_Isend(out.data() + i * bytes, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
      else
        MPI_Irecv(in.data() + i * bytes, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
      MPI_Recv(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
      MPI_Send(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    return (MPI_Wtime() - begin) / window;
  }

  double measure(bool many, int bytes) {
    const int trips = std::clamp((1 << 18) / std::max(bytes, 1), 2, 50);
    return isthmus::pair::median_of(batches, [&] { return many ? bandwidth(bytes) : latency(bytes, trips); });
  }
};

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int batches = count > 3 ? std::atoi(arguments[2]) : 0;
  if (size != 2 || batches < 1) {
    if (rank == 0) std::fputs("measure_pair: isthmus tune starts it: MODE BATCHES SIZE...\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const bool many = std::strcmp(arguments[1], "bandwidth") == 0;
  const std::vector<int> sizes = isthmus::pair::sizes_of(count, arguments, 3, 0);
  const auto room = static_cast<std::size_t>(std::ranges::max(sizes)) * (many ? window : 1);
  Pair pair{rank, batches, std::vector<char>(room, 'o'), std::vector<char>(room, 'i')};
  isthmus::pair::print_times(rank, sizes, [&](int bytes) { return pair.measure(many, bytes); });
  MPI_Finalize();
  return 0;
}
