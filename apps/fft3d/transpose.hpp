// Makes pencils along one axis of pencils along another, among the processes that share both: all at once, or
// piece by piece, so that one piece is on its way while others are worked on.
#pragma once

#include <mpi.h>

#include <complex>
#include <cstddef>
#include <vector>

#include "common/member.hpp"
#include "pencils.hpp"

namespace fft {

using Complex = std::complex<double>;

enum class Exchange {
  alltoallv,  // parts as large as they are
  alltoall,   // parts as large as the largest
};

// Between pencils along axis `a`, of which each process has a share along `b`, and the reverse. `count` such
// planes lie along the third axis `c`. Strides are in numbers; along the whole axis they are 1.
struct Planes {
  int a, b;                                // points of the whole axes
  int c;                                   // planes of this process
  std::ptrdiff_t b_stride, c_stride_of_a;  // in the pencils along a
  std::ptrdiff_t a_stride, c_stride_of_b;  // in the pencils along b
};

// Planes, and where the first of them lies in either pencils.
struct Piece {
  Planes planes;
  std::ptrdiff_t begin_of_a = 0, begin_of_b = 0;
};
// Cuts planes along c into at most `count` pieces, that differ by one plane at most.
[[nodiscard]] std::vector<Piece> pieces_of(const Planes& planes, int count);

// The messages of one piece. What they carry is packed, so that pencils may be written to while it is under
// way.
class Transpose {
 public:
  enum class Direction { forward, backward };

  // The communicator is borrowed; among its processes both axes are shared out by share_of(). `c` is the same
  // on all of them.
  Transpose(const Planes& planes, Exchange exchange, MPI_Comm comm);

  // Numbers that each of two buffers for its messages must have room for.
  [[nodiscard]] std::size_t buffer_size() const { return buffer_size_; }
  [[nodiscard]] bool is_alone() const { return member_.size == 1; }

  // From pencils along a (forward) or b (backward) to what is sent.
  void pack(Direction direction, const Complex* pencils, Complex* message) const;
  // Sends it, and waits for what comes. Collective.
  void exchange(Direction direction, const Complex* from, Complex* to) const;
  // The same without waiting: both belong to the request until it has ended.
  void start_exchange(Direction direction, const Complex* from, Complex* to, MPI_Request* request) const;
  // From what has come to pencils along b (forward) or a (backward).
  void unpack(Direction direction, const Complex* message, Complex* pencils) const;

 private:
  // Of one side of the messages: where each process's part begins, and its size.
  struct Parts {
    std::vector<int> counts, offsets;
  };

  [[nodiscard]] Share a_of(int process) const { return apps::share_of(planes_.a, member_.size, process); }
  [[nodiscard]] Share b_of(int process) const { return apps::share_of(planes_.b, member_.size, process); }
  [[nodiscard]] Parts parts_of(bool of_a) const;
  [[nodiscard]] const Parts& sent(Direction direction) const {
    return direction == Direction::forward ? a_parts_ : b_parts_;
  }
  [[nodiscard]] const Parts& received(Direction direction) const {
    return direction == Direction::forward ? b_parts_ : a_parts_;
  }
  template <class Copy>
  void visit_a_parts(Copy copy) const;
  template <class Copy>
  void visit_b_runs(Copy copy) const;

  Planes planes_;
  Exchange exchange_;
  apps::Member member_;
  Parts a_parts_;  // of this process's pencils along a: messages hold them as [c][a][b]
  Parts b_parts_;  // of its pencils along b
  std::size_t buffer_size_;
};

}  // namespace fft
