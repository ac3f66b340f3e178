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

  // After so many iterations, seconds since the first began. Bars are renewed each 0.1 s, lines each second.
  void update(int done, double seconds);
  // Leaves the terminal's line clean.
  void finish();

 private:
  ProgressStyle style_;
  int iterations_;
  Interruption interruption_;
  double shown_at_ = 0;
  bool line_open_ = false;
};

}  // namespace apps
