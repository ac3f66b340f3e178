// Makes pencils along one axis of pencils along another, among the processes that share both.
#pragma once

#include <mpi.h>

#include <complex>
#include <cstddef>
#include <vector>

#include "common/member.hpp"
#include "pencils.hpp"
#include "times.hpp"

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

class Transpose {
 public:
  // The communicator is borrowed; among its processes both axes are shared out by share_of(). `c` is the same
  // on all of them.
  Transpose(const Planes& planes, Exchange exchange, MPI_Comm comm);

  // Numbers that each of the two buffers must have room for.
  [[nodiscard]] std::size_t buffer_size() const { return buffer_size_; }

  // From pencils along a in `data` to pencils along b in `other`; what was in `data` is lost. Collective.
  void forward(Complex* data, Complex* other, Times& times) const;
  // From pencils along b in `data` to pencils along a in `other`.
  void backward(Complex* data, Complex* other, Times& times) const;

 private:
  // Of one side of the messages: where each process's part begins, and its size.
  struct Parts {
    std::vector<int> counts, offsets;
  };

  [[nodiscard]] Share a_of(int process) const { return apps::share_of(planes_.a, member_.size, process); }
  [[nodiscard]] Share b_of(int process) const { return apps::share_of(planes_.b, member_.size, process); }
  [[nodiscard]] Parts parts_of(bool of_a) const;
  void exchange(const Complex* from, const Parts& sent, Complex* to, const Parts& received) const;
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
