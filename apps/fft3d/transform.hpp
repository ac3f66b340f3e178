// The transform in three dimensions, of real numbers, and its inverse.
#pragma once

#include <complex>
#include <vector>

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
  // `pieces`: into so many each transpose is cut at most, of which some are on their way while others are
  // transformed; 1: it is waited for. The communicators are borrowed. Collective.
  Transform(const Pencils& pencils, const Communicators& communicators, Exchange exchange, int pieces,
            Planning planning);

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
  // A transpose by pieces, each with a place in the buffers for messages.
  struct Leg {
    Leg(const Planes& planes, int count, Exchange exchange, MPI_Comm comm);
    // Numbers that a buffer for the messages of all pieces must have room for.
    [[nodiscard]] std::size_t buffer_size() const;
    [[nodiscard]] bool is_alone() const { return transposes.front().is_alone(); }

    std::vector<Piece> pieces;
    std::vector<Transpose> transposes;  // of each piece
    std::vector<std::size_t> places;    // where the messages of each begin
  };
  using Plans = std::vector<Plan>;  // of each piece
  // Pencils along y, of which each is in one of both.
  struct AlongY {
    Plans by_z, by_x;  // of each piece of x_to_y_, and of y_to_z_
  };

  [[nodiscard]] AlongY along_y_of_all(int sign, Planning planning);
  void execute(const Plan& plan);
  // Transforms `from` by `before`, transposes it to `to`, and transforms that by `after`.
  void move(const Leg& leg, Transpose::Direction direction, const Plans& before, Complex* from, Complex* to,
            const Plans& after);
  void move_at_once(const Transpose& transpose, Transpose::Direction direction, Complex* from, Complex* to);
  void receive(const Leg& leg, std::size_t piece, Transpose::Direction direction, Complex* to);

  Pencils pencils_;
  Times times_;
  Leg x_to_y_, y_to_z_;
  Array<double> points_;
  Array<Complex> first_;            // pencils of modes along x, and along z
  Array<Complex> second_;           // pencils along y
  Array<Complex> sent_, received_;  // messages, where there are several pieces
  std::vector<MPI_Request> under_way_;
  Plans x_forward_;
  AlongY y_forward_;
  Plans z_forward_, z_backward_;
  AlongY y_backward_;
  Plans x_backward_;
};

}  // namespace fft
