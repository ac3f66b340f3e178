// Two clocks put on one scale by messages there and back (Cristian's method).
#pragma once

#include <span>

namespace isthmus::bench {

// One message to the other process and its answer: when it left and came back by our clock, and the other's
// clock in between.
struct Exchange {
  double left;
  double theirs;
  double back;
};

// `seconds`: what to add to our clock for theirs; it is wrong by no more than `error`.
struct Offset {
  double seconds = 0;
  double error = 0;
};

// From the exchange that took least: half of its time is the most that the answer can be wrong by.
inline Offset offset_of(std::span<const Exchange> exchanges) {
  Offset best;
  bool found = false;
  for (const Exchange& exchange : exchanges) {
    const double error = (exchange.back - exchange.left) / 2;
    if (found && error >= best.error) continue;
    best = {exchange.theirs - (exchange.left + exchange.back) / 2, error};
    found = true;
  }
  return best;
}

}  // namespace isthmus::bench
