#include "transform.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

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

// Of pencils of n complex numbers in a row, `in_plane` of them in each plane of the pieces, in place.
std::vector<Plan> along_pencils(int n, int in_plane, const std::vector<Piece>& pieces, Complex* data,
                                int sign, Planning planning) {
  std::vector<Plan> plans;
  std::ptrdiff_t begin = 0;
  for (const Piece& piece : pieces) {
    const int count = in_plane * piece.planes.c;
    fftw_complex* const pencils = for_fftw(data + begin);
    plans.emplace_back(fftw_plan_many_dft(1, &n, count, pencils, nullptr, 1, n, pencils, nullptr, 1, n, sign,
                                          flags_of(planning)));
    begin += static_cast<std::ptrdiff_t>(n) * count;
  }
  return plans;
}

// Of pencils along y, in place: `in_plane` that follow each other in each of so many planes along z.
Plan along_y(const Pencils& p, Complex* first, int planes, int in_plane, int sign, Planning planning) {
  if (planes == 0 || in_plane == 0) return {};
  const int n = p.points[1];
  const fftw_iodim along{.n = n, .is = 1, .os = 1};
  const std::array<fftw_iodim, 2> all{
      {{.n = planes, .is = n * p.x.size, .os = n * p.x.size}, {.n = in_plane, .is = n, .os = n}}};
  return Plan(fftw_plan_guru_dft(1, &along, 2, all.data(), for_fftw(first), for_fftw(first), sign,
                                 flags_of(planning)));
}

// Pencils along x of real numbers and of modes, by the pieces of planes along z.
template <class Make>
std::vector<Plan> along_x(const Pencils& p, const std::vector<Piece>& pieces, double* points, Complex* modes,
                          Make make) {
  std::vector<Plan> plans;
  for (const Piece& piece : pieces) {
    const int count = p.y_of_x.size * piece.planes.c;
    plans.emplace_back(make(count, points, modes + piece.begin_of_a));
    points += static_cast<std::ptrdiff_t>(p.points[0]) * count;
  }
  return plans;
}

std::vector<Plan> to_modes(const Pencils& p, const std::vector<Piece>& pieces, double* points, Complex* modes,
                           Planning planning) {
  return along_x(p, pieces, points, modes, [&, n = p.points[0]](int count, double* from, Complex* to) {
    return fftw_plan_many_dft_r2c(1, &n, count, from, nullptr, 1, n, for_fftw(to), nullptr, 1, p.modes,
                                  flags_of(planning));
  });
}

std::vector<Plan> to_points(const Pencils& p, const std::vector<Piece>& pieces, Complex* modes,
                            double* points, Planning planning) {
  return along_x(p, pieces, points, modes, [&, n = p.points[0]](int count, double* to, Complex* from) {
    return fftw_plan_many_dft_c2r(1, &n, count, for_fftw(from), nullptr, 1, p.modes, to, nullptr, 1, n,
                                  flags_of(planning));
  });
}

}  // namespace

Transform::Leg::Leg(const Planes& planes, int count, Exchange exchange, MPI_Comm comm)
    : pieces(pieces_of(planes, count)) {
  for (const Piece& piece : pieces) {
    places.push_back(buffer_size());
    transposes.emplace_back(piece.planes, exchange, comm);
  }
}

std::size_t Transform::Leg::buffer_size() const {
  std::size_t sum = 0;
  for (const Transpose& each : transposes)
    sum += each.buffer_size();
  return sum;
}

// Forwards those of the lower x follow the transpose from x, as its pieces arrive, and the others lead into
// that to z, each before its piece is sent; backwards the lower ones follow the transpose from z. So both
// have work to hide behind. A transpose that has no message needs none.
Transform::AlongY Transform::along_y_of_all(int sign, Planning planning) {
  const std::vector<Piece>& in_z = x_to_y_.pieces;
  const std::vector<Piece>& in_x = y_to_z_.pieces;
  const bool forward = sign == FFTW_FORWARD;
  std::size_t lower = (in_x.size() + 1) / 2;
  if (y_to_z_.is_alone() || in_x.size() == 1) lower = forward ? in_x.size() : 0;
  if (x_to_y_.is_alone()) lower = forward ? 0 : in_x.size();
  const std::ptrdiff_t n = pencils_.points[1];
  const std::ptrdiff_t parting = lower < in_x.size() ? in_x[lower].begin_of_a : n * pencils_.x.size;
  const std::ptrdiff_t in_plane = forward ? parting / n : pencils_.x.size - parting / n;
  AlongY plans;
  for (const Piece& piece : in_z)
    plans.by_z.push_back(along_y(pencils_, second_.data() + piece.begin_of_b + (forward ? 0 : parting),
                                 piece.planes.c, static_cast<int>(in_plane), sign, planning));
  for (std::size_t i = 0; i < in_x.size(); ++i) {
    const bool has = (i < lower) != forward;
    plans.by_x.push_back(along_y(pencils_, second_.data() + in_x[i].begin_of_a, pencils_.z.size,
                                 has ? in_x[i].planes.c : 0, sign, planning));
  }
  return plans;
}

Transform::Transform(const Pencils& p, const Communicators& communicators, Exchange exchange, int pieces,
                     Planning planning)
    : pencils_(p),
      x_to_y_(planes_of_x_and_y(p), pieces, exchange, communicators.row()),
      y_to_z_(planes_of_y_and_z(p), pieces, exchange, communicators.column()),
      points_(static_cast<std::size_t>(p.sizes()[0])),
      first_(std::max(x_to_y_.buffer_size(), y_to_z_.buffer_size())),
      second_(first_.size()),
      sent_(pieces > 1 ? first_.size() : 0),
      received_(sent_.size()),
      under_way_(static_cast<std::size_t>(pieces), MPI_REQUEST_NULL),
      x_forward_(to_modes(p, x_to_y_.pieces, points_.data(), first_.data(), planning)),
      y_forward_(along_y_of_all(FFTW_FORWARD, planning)),
      z_forward_(
          along_pencils(p.points[2], p.y_of_z.size, y_to_z_.pieces, first_.data(), FFTW_FORWARD, planning)),
      z_backward_(
          along_pencils(p.points[2], p.y_of_z.size, y_to_z_.pieces, first_.data(), FFTW_BACKWARD, planning)),
      y_backward_(along_y_of_all(FFTW_BACKWARD, planning)),
      x_backward_(to_points(p, x_to_y_.pieces, first_.data(), points_.data(), planning)) {}

void Transform::execute(const Plan& plan) {
  const double begin = MPI_Wtime();
  plan.execute();
  times_.transforms += MPI_Wtime() - begin;
}

// Among one process a message [c][a][b] is the pencils along b.
void Transform::move_at_once(const Transpose& transpose, Transpose::Direction direction, Complex* from,
                             Complex* to) {
  const double begin = MPI_Wtime();
  if (transpose.is_alone()) {
    if (direction == Transpose::Direction::forward)
      transpose.pack(direction, from, to);
    else
      transpose.unpack(direction, from, to);
    times_.copies += MPI_Wtime() - begin;
    return;
  }
  transpose.pack(direction, from, to);
  const double packed = MPI_Wtime();
  transpose.exchange(direction, to, from);
  const double exchanged = MPI_Wtime();
  transpose.unpack(direction, from, to);
  times_.copies += packed - begin + MPI_Wtime() - exchanged;
  times_.exchange += exchanged - packed;
}

void Transform::move(const Leg& leg, Transpose::Direction direction, const Plans& before, Complex* from,
                     Complex* to, const Plans& after) {
  const bool is_forward = direction == Transpose::Direction::forward;
  const std::size_t pieces = leg.pieces.size();
  if (pieces == 1 || leg.is_alone()) {
    for (std::size_t i = 0; i < pieces; ++i) {
      const Piece& piece = leg.pieces[i];
      execute(before[i]);
      move_at_once(leg.transposes[i], direction, from + (is_forward ? piece.begin_of_a : piece.begin_of_b),
                   to + (is_forward ? piece.begin_of_b : piece.begin_of_a));
      execute(after[i]);
    }
    return;
  }
  for (std::size_t i = 0; i < pieces; ++i) {
    execute(before[i]);
    const double begin = MPI_Wtime();
    Complex* const message = sent_.data() + leg.places[i];
    leg.transposes[i].pack(
        direction, from + (is_forward ? leg.pieces[i].begin_of_a : leg.pieces[i].begin_of_b), message);
    const double packed = MPI_Wtime();
    leg.transposes[i].start_exchange(direction, message, received_.data() + leg.places[i], &under_way_[i]);
    // A library that makes progress in calls alone has one after each piece.
    int unused = 0;
    MPI_Testall(static_cast<int>(i + 1), under_way_.data(), &unused, MPI_STATUSES_IGNORE);
    times_.copies += packed - begin;
    times_.exchange += MPI_Wtime() - packed;
  }
  for (std::size_t i = 0; i < pieces; ++i) {
    receive(leg, i, direction, to + (is_forward ? leg.pieces[i].begin_of_b : leg.pieces[i].begin_of_a));
    execute(after[i]);
  }
}

void Transform::receive(const Leg& leg, std::size_t piece, Transpose::Direction direction, Complex* to) {
  const double begin = MPI_Wtime();
  MPI_Wait(&under_way_[piece], MPI_STATUS_IGNORE);
  const double arrived = MPI_Wtime();
  leg.transposes[piece].unpack(direction, received_.data() + leg.places[piece], to);
  times_.exchange += arrived - begin;
  times_.copies += MPI_Wtime() - arrived;
}

void Transform::forward() {
  move(x_to_y_, Transpose::Direction::forward, x_forward_, first_.data(), second_.data(), y_forward_.by_z);
  move(y_to_z_, Transpose::Direction::forward, y_forward_.by_x, second_.data(), first_.data(), z_forward_);
}

void Transform::backward() {
  move(y_to_z_, Transpose::Direction::backward, z_backward_, first_.data(), second_.data(), y_backward_.by_x);
  move(x_to_y_, Transpose::Direction::backward, y_backward_.by_z, second_.data(), first_.data(), x_backward_);
  const double begin = MPI_Wtime();
  const double scale = 1 / pencils_.points_in_all();
  double* const points = points_.data();
  const std::size_t count = points_.size();
  for (std::size_t i = 0; i < count; ++i)
    points[i] *= scale;
  times_.transforms += MPI_Wtime() - begin;
}

}  // namespace fft
