// bench_gpu: times MPI operations on GPU memory against the bare driver and NCCL, in turn, in one run. Plain
// MPI 3; the driver and NCCL are loaded at run time.
//
//   mpiexec -n RANKS bench_gpu [--seconds S] [--rounds N] [--nccl FILE | --no-nccl] POINT...
//
// POINT: pingpong.8B, window-both.1MiB, allreduce.64KiB, ... Prints one JSON line for each point and way.
// Exit status 2 for a bad argument or where there is no GPU, 3 for wrong contents.

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/sizes.hpp"
#include "gpu/points.hpp"

namespace {

using namespace isthmus::bench;

struct Family {
  std::string_view name;
  int ranks;  // 0: any number
  void (*run)(const Setting& with, std::string_view point, std::size_t bytes);
};

template <Kind kind>
void pingpong_of(const Setting& with, std::string_view point, std::size_t bytes) {
  pingpong(with, point, bytes, kind);
}
template <bool both>
void window_of(const Setting& with, std::string_view point, std::size_t bytes) {
  window(with, point, bytes, both);
}
template <Kind from, Kind to>
void mixed_of(const Setting& with, std::string_view point, std::size_t bytes) {
  mixed(with, point, bytes, from, to);
}
void host_after(const Setting& with, std::string_view point, std::size_t bytes) {
  host_pingpong(with.rounds, point, bytes, "mpi");
}

constexpr std::string_view host_name = "host";

constexpr Family families[] = {
    {"pingpong", 2, pingpong_of<Kind::device>},
    {"pingpong-vmm", 2, pingpong_of<Kind::virtual_memory>},
    {"window", 2, window_of<false>},
    {"window-both", 2, window_of<true>},
    {"first", 2, first_message},
    {"vector", 2, isthmus::bench::vector},
    {"pinned-device", 2, mixed_of<Kind::pinned, Kind::device>},
    {"pageable-device", 2, mixed_of<Kind::pageable, Kind::device>},
    {host_name, 2, host_after},
    {"allreduce", 0, allreduce},
    {"bcast", 0, bcast},
    {"allgather", 0, allgather},
    {"allgatherv", 0, allgatherv},
    {"alltoall", 0, alltoall},
    {"alltoall-in-place", 0, alltoall_in_place},
    {"alltoallv", 0, alltoallv},
    {"scan", 0, scan},
};

struct Point {
  std::string_view name;
  const Family* family;
  std::size_t bytes;
};

struct Options {
  double seconds = 0.1;
  int rounds = 15;
  bool with_nccl = true;
  std::string nccl;
  std::vector<Point> points;
};

[[noreturn]] void refuse(std::string_view argument, const char* why) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    std::fprintf(stderr, "bench_gpu: %.*s: %s\n", static_cast<int>(argument.size()), argument.data(), why);
  MPI_Finalize();
  std::exit(2);
}

Point parse_point(std::string_view text) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::size_t dot = text.find('.');
  for (const Family& family : families) {
    if (family.name != text.substr(0, dot)) continue;
    if (family.ranks != 0 && family.ranks != ranks) refuse(text, "needs exactly 2 ranks");
    const auto bytes = dot == std::string_view::npos ? std::nullopt : parse_size(text.substr(dot + 1));
    if (!bytes || *bytes == 0 || *bytes % 8 != 0 || *bytes > (std::size_t{1} << 30U))
      refuse(text, "needs a size that is a multiple of 8 bytes up to 1024MiB, as in .64KiB");
    return {text, &family, *bytes};
  }
  refuse(text, "no such benchmark");
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--seconds") {
      options.seconds = std::atof(value);
    } else if (argument == "--rounds") {
      options.rounds = std::atoi(value);
    } else if (argument == "--nccl") {
      options.nccl = value;
    } else if (argument == "--no-nccl") {
      options.with_nccl = false;
      continue;
    } else {
      options.points.push_back(parse_point(argument));
      continue;
    }
    ++i;
  }
  if (options.seconds <= 0 || options.rounds < 1) refuse("--seconds, --rounds", "must be above 0");
  if (options.points.empty()) refuse("POINT", "which benchmark? for example pingpong.8B");
  return options;
}

void report_facts(const Cuda& cuda, const Nccl* nccl, const std::string& why) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  int driver = 0;
  MPI_Get_library_version(text, &length);
  cuda.demand(cuda->version(&driver), "cuDriverGetVersion");
  report_fact("library", std::string_view(text, static_cast<std::size_t>(length)));
  report_fact("gpus", std::to_string(cuda.devices()) + " x " + cuda.name());
  report_fact("driver", std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10));
  report_fact("nccl", nccl ? std::to_string(nccl->version()) : why);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Options options = parse(argc, argv);
  const Rounds rounds(options.seconds, options.rounds);
  // What host messages cost before the program uses CUDA.
  for (const Point& point : options.points)
    if (point.family->name == host_name) host_pingpong(rounds, point.name, point.bytes, "raw");
  {
    const Cuda cuda(rounds.rank());
    std::string why = "left out";
    std::unique_ptr<Nccl> nccl;
    if (options.with_nccl) nccl = Nccl::open(cuda, options.nccl, why);
    if (rounds.rank() == 0) report_facts(cuda, nccl.get(), why);
    const Setting setting{rounds, cuda, nccl.get()};
    for (const Point& point : options.points)
      point.family->run(setting, point.name, point.bytes);
    nccl.reset();
    MPI_Finalize();
  }
  return 0;
}
