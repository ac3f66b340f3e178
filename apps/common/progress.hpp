// What a person sees while an application works through its iterations.
#pragma once

#include <string>

#include "common/interruption.hpp"

namespace apps {

enum class ProgressStyle { automatic, bar, lines, none };

class Progress {
 public:
  // Only the process with `speaks` prints.
  Progress(ProgressStyle style, std::string program, bool speaks, int iterations);

  // From now on so many are thought to be needed.
  void expect(int iterations);
  // After so many iterations, seconds since the first began; `detail`: what else there is to say. Bars are
  // renewed each 0.1 s, lines each second.
  void update(int done, double seconds, const std::string& detail = {});
  // Leaves the terminal's line clean.
  void finish();

 private:
  ProgressStyle style_;
  int iterations_;
  bool is_estimate_ = false;
  Interruption interruption_;
  double shown_at_ = 0;
  bool line_open_ = false;
};

}  // namespace apps
