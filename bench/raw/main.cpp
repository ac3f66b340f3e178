// bench_raw: what this machine can do at best, without MPI: the limits that tools/bench prints beside the
// results.
//
//   bench_raw [--seconds S] [--bare PROGRAM] LIMIT...       LIMIT: cache-line copy double-copy switching
//   starting
//
// Prints one JSON line a point (bench/common/report.hpp).

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "common/report.hpp"
#include "raw/limits.hpp"

namespace {

using namespace isthmus::bench;

int usage(std::string_view argument, const char* why) {
  std::fprintf(stderr, "bench_raw: %.*s: %s\n", static_cast<int>(argument.size()), argument.data(), why);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0.05;
  const char* bare = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    try {
      if (argument == "--seconds" && i + 1 < argc) {
        seconds = std::atof(argv[++i]);
        if (seconds <= 0) return usage(argument, "needs a time in seconds, above 0");
      } else if (argument == "--bare" && i + 1 < argc) {
        bare = argv[++i];
      } else if (argument == "cache-line") {
        cache_line_limits(seconds);
      } else if (argument == "probe") {
        distance_probe(seconds);
      } else if (argument == "copy") {
        copy_limits(seconds);
      } else if (argument == "double-copy") {
        double_copy_limits(seconds);
      } else if (argument == "switching") {
        switching_limits(seconds);
      } else if (argument == "starting") {
        if (bare == nullptr) return usage(argument, "needs --bare PROGRAM before it");
        starting_limits(bare);
      } else {
        return usage(argument, "no such limit");
      }
    } catch (const std::exception& error) {
      report_failure(argument, error.what());
    }
  }
}
