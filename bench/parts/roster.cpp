// measure_roster: what the roster of 2^10, 2^16 and 2^20 ranks takes: bytes, and the time to write all that
// are here, to read it the first time (which lists them), and to read it again. One JSON line a point.
#include "wire/roster.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/measure.hpp"
#include "common/report.hpp"

namespace isthmus::bench {
namespace {

using wire::Roster;
using wire::RosterState;

// Every `stride`th rank is here.
void roster(std::uint32_t world, std::uint32_t stride, const char* density) {
  std::vector<std::atomic<RosterState>> bytes(world);
  const std::string suffix = "@" + std::to_string(world) + density;
  std::vector<double> build;
  std::vector<double> scan;
  std::vector<double> refresh;
  for (int i = 0; i < 21; ++i) {
    double start = now_seconds();
    for (std::uint32_t rank = 0; rank < world; rank += stride)
      bytes[rank].store(RosterState::joined, std::memory_order_release);
    build.push_back((now_seconds() - start) * 1e6);
    start = now_seconds();
    Roster seen(bytes);
    scan.push_back((now_seconds() - start) * 1e6);
    start = now_seconds();
    const bool changed = !seen.refresh().empty();
    refresh.push_back((now_seconds() - start) * 1e6);
    if (changed || seen.count() != (world + stride - 1) / stride)
      return report_failure("roster" + suffix, "counts wrongly");
  }
  report_value("roster-build" + suffix, Unit::microseconds, median(build));
  report_value("roster-scan" + suffix, Unit::microseconds, median(scan));
  report_value("roster-refresh" + suffix, Unit::microseconds, median(refresh));
}

}  // namespace
}  // namespace isthmus::bench

int main() {
  using namespace isthmus;
  for (const std::uint32_t world : {1U << 10, 1U << 16, 1U << 20}) {
    const auto layout = wire::RegionLayout::make(wire::RegionShape::of(1, world, {64, 8192}));
    if (layout)
      bench::report_value("roster-bytes@" + std::to_string(world), bench::Unit::kilobytes,
                          static_cast<double>(layout->blocks - layout->roster) / 1024);
    bench::roster(world, 1, "-all");
    bench::roster(world, world / 256, "-256");
  }
}
