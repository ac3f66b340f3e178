#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace isthmus::simulate {

/// Microseconds over a size, as they were measured: straight lines between the points, the first value below
/// them, and the slope of the last two beyond.
class Curve {
 public:
  Curve() = default;
  /// At least one point; sizes grow, and no time is negative.
  static Result<Curve> make(std::vector<std::pair<double, double>> points);

  [[nodiscard]] bool empty() const noexcept { return points_.empty(); }
  [[nodiscard]] double at(double size) const noexcept;
  /// What each further unit of size takes where it is much: by it a link is held.
  [[nodiscard]] double slope() const noexcept;
  /// How long a message of `size` holds what carries it: not for longer than it takes.
  [[nodiscard]] double hold(double size) const noexcept;

 private:
  std::vector<std::pair<double, double>> points_;
};

/// How faces travel, with what that was measured to cost.
struct Way {
  std::string name;
  Curve host;     ///< one way, by bytes, between GPUs of a host
  Curve network;  ///< and of two hosts; empty: not known
  /// Packing all faces of a block and unpacking them, by their points, with what else this way has the GPU
  /// and its processor do for an exchange; empty: nothing.
  Curve faces;
};

/// An iteration that was measured.
struct Measured {
  std::string way;
  int gpus = 1;
  int n = 1;  ///< points along each edge of the cube
  double iteration = 0;
};

/// What was measured, in microseconds.
struct Costs {
  std::string name;
  int gpus_per_host = 1;
  int adapters_per_host = 1;
  Curve sweep;              ///< of a block, by its points
  Curve allreduce;          ///< by processes; empty: none
  int residual_every = 10;  ///< iterations from one allreduce to the next
  double post = 0;          ///< what a processor does for each message that it starts
  double overhead = 0;      ///< what an iteration takes beside all that: launches, waits
  std::vector<Way> ways;
  std::vector<Measured> measured;
  int weak_edge = 0;  ///< points along each edge of a GPU's block, for the curve of weak scaling; 0: none
  int strong_n = 0;   ///< along each edge of the cube, for that of strong scaling; 0: none

  [[nodiscard]] const Way* way(std::string_view called) const noexcept;
};

/// Of the text of a JSON file; an error says what in it is none.
Result<Costs> read_costs(std::string_view json);

}  // namespace isthmus::simulate
