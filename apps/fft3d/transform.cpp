#include "transform.hpp"

#include <algorithm>
#include <cstddef>

namespace fft {
namespace {

Planes planes_of_x_and_y(const Pencils& p) {
  const auto [nx, ny, nz] = p.points;
  return {.a = p.modes,
          .b = ny,
          .c = p.z.size,
          .b_stride = p.modes,
          .c_stride_of_a = static_cast<std::ptrdiff_t>(p.modes) * p.y_of_x.size,
          .a_stride = ny,
          .c_stride_of_b = static_cast<std::ptrdiff_t>(ny) * p.x.size};
}

Planes planes_of_y_and_z(const Pencils& p) {
  const auto [nx, ny, nz] = p.points;
  return {.a = ny,
          .b = nz,
          .c = p.x.size,
          .b_stride = static_cast<std::ptrdiff_t>(ny) * p.x.size,
          .c_stride_of_a = ny,
          .a_stride = nz,
          .c_stride_of_b = static_cast<std::ptrdiff_t>(nz) * p.y_of_z.size};
}

unsigned flags_of(Planning planning) {
  return planning == Planning::measure ? FFTW_MEASURE : FFTW_ESTIMATE;
}

// Of `count` pencils of n complex numbers in a row, in place.
Plan along_pencils(int n, int count, Complex* data, int sign, Planning planning) {
  return Plan(fftw_plan_many_dft(1, &n, count, for_fftw(data), nullptr, 1, n, for_fftw(data), nullptr, 1, n,
                                 sign, flags_of(planning)));
}

Plan to_modes(const Pencils& p, double* points, Complex* modes, Planning planning) {
  const int n = p.points[0];
  return Plan(fftw_plan_many_dft_r2c(1, &n, p.y_of_x.size * p.z.size, points, nullptr, 1, n, for_fftw(modes),
                                     nullptr, 1, p.modes, flags_of(planning)));
}

Plan to_points(const Pencils& p, Complex* modes, double* points, Planning planning) {
  const int n = p.points[0];
  return Plan(fftw_plan_many_dft_c2r(1, &n, p.y_of_x.size * p.z.size, for_fftw(modes), nullptr, 1, p.modes,
                                     points, nullptr, 1, n, flags_of(planning)));
}

std::size_t buffer_size(const Transpose& one, const Transpose& other) {
  return std::max(one.buffer_size(), other.buffer_size());
}

}  // namespace

Transform::Transform(const Pencils& p, const Communicators& communicators, Exchange exchange,
                     Planning planning)
    : pencils_(p),
      x_to_y_(planes_of_x_and_y(p), exchange, communicators.row()),
      y_to_z_(planes_of_y_and_z(p), exchange, communicators.column()),
      points_(static_cast<std::size_t>(p.sizes()[0])),
      first_(buffer_size(x_to_y_, y_to_z_)),
      second_(buffer_size(x_to_y_, y_to_z_)),
      x_forward_(to_modes(p, points_.data(), first_.data(), planning)),
      y_forward_(along_pencils(p.points[1], p.x.size * p.z.size, second_.data(), FFTW_FORWARD, planning)),
      z_forward_(along_pencils(p.points[2], p.x.size * p.y_of_z.size, first_.data(), FFTW_FORWARD, planning)),
      z_backward_(
          along_pencils(p.points[2], p.x.size * p.y_of_z.size, first_.data(), FFTW_BACKWARD, planning)),
      y_backward_(along_pencils(p.points[1], p.x.size * p.z.size, second_.data(), FFTW_BACKWARD, planning)),
      x_backward_(to_points(p, first_.data(), points_.data(), planning)) {}

void Transform::transform(const Plan& plan) {
  const double begin = MPI_Wtime();
  plan.execute();
  times_.transforms += MPI_Wtime() - begin;
}

void Transform::forward() {
  transform(x_forward_);
  x_to_y_.forward(first_.data(), second_.data(), times_);
  transform(y_forward_);
  y_to_z_.forward(second_.data(), first_.data(), times_);
  transform(z_forward_);
}

void Transform::backward() {
  transform(z_backward_);
  y_to_z_.backward(first_.data(), second_.data(), times_);
  transform(y_backward_);
  x_to_y_.backward(second_.data(), first_.data(), times_);
  transform(x_backward_);
  const double begin = MPI_Wtime();
  const double scale = 1 / pencils_.points_in_all();
  double* const points = points_.data();
  const std::size_t count = points_.size();
  for (std::size_t i = 0; i < count; ++i)
    points[i] *= scale;
  times_.transforms += MPI_Wtime() - begin;
}

}  // namespace fft
