// bench_host: times MPI operations on the ranks it is started on, in plain MPI 3, for any MPI library.
//
//   mpiexec -n RANKS bench_host [--seconds S] POINT...      POINT: latency.8B, bandwidth.4MiB, barrier, ...
//
// Prints one JSON line a point (bench/common/report.hpp). Exit status 2 for a bad argument, 3 for wrong
// contents.

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "common/sizes.hpp"
#include "host/collectives.hpp"
#include "host/job.hpp"
#include "host/nonblocking.hpp"
#include "host/point_to_point.hpp"

namespace {

using namespace isthmus::bench;

constexpr Family families[] = {
    {"latency", true, 2, latency},
    {"latency-echo", true, 2, latency_echo},
    {"bandwidth", true, 2, bandwidth},
    {"bandwidth-echo", true, 2, bandwidth_echo},
    {"bandwidth-window", true, 2, bandwidth_window},
    {"rate", true, 2, message_rate},
    {"barrier", false, 0, barrier},
    {"allreduce", true, 0, allreduce},
    {"bcast", true, 0, bcast},
    {"bcast-fixed-root", true, 0, bcast_fixed_root},
    {"allgather", true, 0, allgather},
    {"alltoall", true, 0, alltoall},
    {"iallreduce", true, 0, iallreduce},
    {"iallreduce-many", true, 0, iallreduce_many},
    {"ibcast", true, 0, ibcast},
    {"neighbor-alltoall", true, 0, neighbor_alltoall},
};

struct Point {
  std::string_view name;
  const Family* family;
  std::size_t bytes;
};

[[noreturn]] void refuse(int rank, std::string_view argument, const char* why) {
  if (rank == 0)
    std::fprintf(stderr, "bench_host: %.*s: %s\n", static_cast<int>(argument.size()), argument.data(), why);
  MPI_Finalize();
  std::exit(2);
}

Point parse_point(int rank, int ranks, std::string_view text) {
  const std::size_t dot = text.find('.');
  const std::string_view name = text.substr(0, dot);
  for (const Family& family : families) {
    if (family.name != name) continue;
    if (family.ranks != 0 && family.ranks != ranks) refuse(rank, text, "needs exactly 2 ranks");
    if (!family.sized && dot == std::string_view::npos) return {text, &family, 0};
    if (family.sized && dot != std::string_view::npos)
      if (const auto bytes = parse_size(text.substr(dot + 1)); bytes && *bytes > 0 && *bytes % 8 == 0)
        return {text, &family, *bytes};
    refuse(rank, text,
           family.sized ? "needs a size that is a multiple of 8 bytes, as in .64KiB" : "takes no size");
  }
  refuse(rank, text, "no such benchmark");
}

void report_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  report_fact("library", std::string_view(text, static_cast<std::size_t>(length)));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  double seconds = 0.1;
  std::vector<Point> points;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument != "--seconds") {
      points.push_back(parse_point(rank, ranks, argument));
      continue;
    }
    ++i;
    seconds = i < argc ? std::atof(argv[i]) : 0;
    if (seconds <= 0) refuse(rank, argument, "needs a time in seconds, above 0");
  }
  if (points.empty()) refuse(rank, "POINT", "which benchmark? for example latency.8B");
  const Job job(seconds);
  if (rank == 0) report_library();
  for (const Point& point : points)
    point.family->run(job, point.name, point.bytes);
  MPI_Finalize();
}
