#include "route/workload.hpp"

#include <algorithm>

namespace isthmus {

std::string_view name_of(Workload workload) noexcept {
  switch (workload) {
    case Workload::unknown:
      return "unknown";
    case Workload::latency:
      return "latency";
    case Workload::bandwidth:
      return "bandwidth";
  }
  return "unknown";
}

std::string WorkloadTrace::text() const {
  if (workload_ == Workload::unknown) return {};
  return std::string(name_of(workload_)) + "-bound (" + std::to_string(nonblocking_) +
         " % nonblocking), since message " + std::to_string(since_);
}

bool WorkloadTrace::decide() noexcept {
  nonblocking_ = 100 - 100 * std::min(blocking_, window) / window;
  blocking_ = 0;
  Workload found = workload_;
  if (nonblocking_ >= bandwidth_from)
    found = Workload::bandwidth;
  else if (nonblocking_ <= latency_to || workload_ == Workload::unknown)
    found = Workload::latency;
  if (found == workload_) return false;
  workload_ = found;
  since_ = started_;
  return true;
}

}  // namespace isthmus
