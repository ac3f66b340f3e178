// One point, done in several ways in turn: so that whatever the machine does meanwhile hits all of them
// alike.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/report.hpp"

namespace isthmus::bench {

// "raw": the driver alone; "mpi": the library under test; "nccl".
struct Way {
  std::string name;
  std::function<void()> once;  // one operation, as this rank takes part in it
};

// How an operation's time becomes the point's value.
struct Meaning {
  Unit unit = Unit::microseconds;
  double amount = 1;  // bytes
  double share = 1;   // of the time: a half where there and back is timed and one way is meant
};

class Rounds {
 public:
  Rounds(double seconds, int rounds);

  // Collective. Rank 0 prints a line for each way: median over the rounds of the time of its slowest rank.
  void measure(std::string_view point, const Meaning& meaning, const std::vector<Way>& ways) const;
  // Collective: ends the job if the contents are wrong on any rank, and says where.
  void demand(std::string_view point, std::string_view way, bool right) const;
  void fail(std::string_view point, std::string_view way, std::string_view why) const;
  // The same with more time for each way.
  Rounds longer(double times) const { return {times * seconds_, rounds_}; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  // Of `operations` of them, on the slowest rank, on all ranks.
  double time(const Way& way, long operations) const;
  long calibrate(const Way& way) const;

  const double seconds_;
  const int rounds_;
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace isthmus::bench
