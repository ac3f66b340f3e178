// Where a process's time went, in seconds.
#pragma once

namespace fft {

struct Times {
  double transforms = 0;  // along an axis, and the division by the number of points
  double copies = 0;      // into messages and out of them
  double exchange =
      0;  // alltoall and alltoallv, with the wait for others: what is not hidden behind the rest
};

}  // namespace fft
