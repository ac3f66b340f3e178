#pragma once

#include <limits>
#include <string>
#include <vector>

namespace isthmus::tool {

struct TraceOptions {
  std::string output = "isthmus-trace.json";
  bool summary_only = false;
  double from = 0;  ///< seconds after the first event; what is before and after is left out of `output`
  double to = std::numeric_limits<double>::infinity();
  std::string limit;        ///< bytes of each rank's file, as ISTHMUS_TRACE_LIMIT; empty: as that says
  std::string from_folder;  ///< of files that a job has left (ISTHMUS_TRACE); empty: `command` is run
  std::vector<std::string> command;
};
/// `isthmus trace`: its status is the command's, or 1 where that is 0 and the trace could not be read or
/// written.
int trace_job(const TraceOptions& options);

}  // namespace isthmus::tool
