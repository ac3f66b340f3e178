// The transform in three dimensions, of real numbers, and its inverse.
#pragma once

#include <complex>

#include "communicators.hpp"
#include "pencils.hpp"
#include "plan.hpp"
#include "times.hpp"
#include "transpose.hpp"

namespace fft {

enum class Planning {
  estimate,  // by FFTW's rules
  measure,   // by its trials, for up to some seconds
};

class Transform {
 public:
  // The communicators are borrowed. Collective.
  Transform(const Pencils& pencils, const Communicators& communicators, Exchange exchange, Planning planning);

  // Pencils along x: [z][y][x].
  [[nodiscard]] Array<double>& points() { return points_; }
  // Pencils along z: [x][y][z], x counting modes; sum over all points of value exp(-2 pi i (a x/nx + b y/ny +
  // c z/nz)).
  [[nodiscard]] Complex* modes() { return first_.data(); }

  // points() to modes(). Collective.
  void forward();
  // modes() to points(), so that forward and backward together change nothing. What was in modes() is lost.
  // Collective.
  void backward();

  [[nodiscard]] const Times& times() const { return times_; }
  void forget_times() { times_ = {}; }

 private:
  void transform(const Plan& plan);

  Pencils pencils_;
  Times times_;
  Transpose x_to_y_, y_to_z_;
  Array<double> points_;
  Array<Complex> first_;   // pencils of modes along x, and along z
  Array<Complex> second_;  // pencils along y
  Plan x_forward_, y_forward_, z_forward_, z_backward_, y_backward_, x_backward_;
};

}  // namespace fft
