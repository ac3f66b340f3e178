// Ctrl-C and SIGTERM end a program with a line that says how far it had come.
#pragma once

#include <string>

namespace apps {

// At most one in a process. The line goes to standard error, by the process that `speaks`; then the signal
// does what it does without this.
class Interruption {
 public:
  Interruption(std::string program, bool speaks);
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  // From now on the line is "PROGRAM: interrupted WHERE".
  void reached(const std::string& where);

 private:
  std::string program_;
  bool speaks_;
  unsigned next_ = 0;  // which of the handler's two lines is not in its sight
};

}  // namespace apps
