#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/measure.hpp"
#include "common/report.hpp"
#include "raw/limits.hpp"
#include "raw/pair.hpp"

namespace isthmus::bench {
namespace {

// Starts `count` processes at once and waits for all; false when one could not start or failed.
bool start_and_wait(const char* program, const char* argument, int count) {
  std::vector<pid_t> started;
  bool succeeded = true;
  for (int i = 0; i < count; ++i) {
    char* const arguments[] = {const_cast<char*>(program), const_cast<char*>(argument), nullptr};
    pid_t pid = 0;
    if (posix_spawn(&pid, program, nullptr, nullptr, arguments, environ) != 0) {
      succeeded = false;
      break;
    }
    started.push_back(pid);
  }
  for (const pid_t pid : started) {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) succeeded = false;
  }
  return succeeded;
}

void starting(const char* bare, int count) {
  const std::string point = "start@" + std::to_string(count);
  std::vector<double> milliseconds;
  for (int i = 0; i < 5; ++i) {
    const double start = now_seconds();
    if (!start_and_wait(bare, nullptr, count)) return report_failure(point, "could not run the bare program");
    milliseconds.push_back((now_seconds() - start) * 1e3);
  }
  report_value(point, Unit::milliseconds, median(milliseconds));
}

void resident(const char* bare) {
  char path[] = "/tmp/isthmus-bench-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return report_failure("resident", "cannot make a file in /tmp");
  long peak = -1;
  long rss = -1;
  long pss = -1;
  const bool ran = start_and_wait(bare, path, 1);
  char text[96] = {};
  if (ran && read(file, text, sizeof text - 1) > 0) std::sscanf(text, "%ld %ld %ld", &peak, &rss, &pss);
  close(file);
  unlink(path);
  if (rss < 0) return report_failure("resident", "the bare program did not report");
  report_value("resident", Unit::kilobytes, static_cast<double>(rss));
  report_value("resident-peak", Unit::kilobytes, static_cast<double>(peak));
  report_value("resident-share", Unit::kilobytes, static_cast<double>(pss));
}

}  // namespace

void starting_limits(const char* bare) {
  for (const int count : {2, 32, 256})
    starting(bare, count);
  resident(bare);
}

}  // namespace isthmus::bench
